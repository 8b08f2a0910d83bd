// Package openapitest checks JSON that the gateway sends against the published
// OpenAPI document of the Open Responses specification. It is for tests only.
//
// The document is not part of this repository. It is looked for beside the
// checkout, at ../shared/reference/openresponses-openapi.json seen from go.mod;
// the environment variable OPENRESPONSES_OPENAPI names another file. Where there
// is none, tests are skipped, except that with CI=true they fail.
//
// Where the gateway departs from the document on purpose, exceptions.txt says so
// with a reason. A test of this package fails for an exception that nothing
// needs any more, so that the list can only shrink.
package openapitest

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Where the schemas are in the document, as JSON pointers.
const (
	responsePointer = "/components/schemas/ResponseResource"
	eventPointer    = "/paths/~1responses/post/responses/200/content/text~1event-stream/schema"
)

// A Checker validates responses and events. It is safe for concurrent use. Make
// it with [Load].
type Checker struct {
	response, event *jsonschema.Schema
	exceptions      []*exception
}

// Load returns a checker with the exceptions of exceptions.txt. It skips t where
// the document is missing, and fails it where CI=true.
func Load(t testing.TB) *Checker {
	t.Helper()
	c := loadStrict(t)
	var err error
	if c.exceptions, err = parseExceptions(exceptionsText); err != nil {
		t.Fatal(err)
	}
	return c
}

// loadStrict returns a checker without exceptions.
func loadStrict(t testing.TB) *Checker {
	t.Helper()
	schemas, err := compileOnce()
	switch {
	case errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true":
		t.Skipf("no OpenAPI document to check against: %v", err)
	case err != nil:
		t.Fatalf("OpenAPI document: %v", err)
	}
	return &Checker{response: schemas[0], event: schemas[1]}
}

// CheckResponse says where a response object departs from the document. The
// error has one line for each place.
func (c *Checker) CheckResponse(doc []byte) error { return c.check(c.response, doc) }

// CheckEvent says where the data of one event departs from the document.
func (c *Checker) CheckEvent(doc []byte) error { return c.check(c.event, doc) }

func (c *Checker) check(schema *jsonschema.Schema, doc []byte) error {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	err := schema.Validate(v)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err
	}
	var problems []error
	for _, p := range violations(invalid, v) {
		if !c.excepted(p) {
			problems = append(problems, p)
		}
	}
	return errors.Join(problems...)
}

// compileOnce reads and compiles the document for all tests of a process.
var compileOnce = sync.OnceValues(func() ([2]*jsonschema.Schema, error) {
	name, err := documentFile()
	if err != nil {
		return [2]*jsonschema.Schema{}, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return [2]*jsonschema.Schema{}, err
	}
	return compile(text)
})

func compile(text []byte) (schemas [2]*jsonschema.Schema, err error) {
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return schemas, err
	}
	const name = "mem:openapi"
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, explicit(doc, doc)); err != nil {
		return schemas, err
	}
	for i, pointer := range []string{responsePointer, eventPointer} {
		if schemas[i], err = compiler.Compile(name + "#" + pointer); err != nil {
			return schemas, err
		}
	}
	return schemas, nil
}

// documentFile finds the document from the directory of go.mod, because the
// working directory of a test is that of its package.
func documentFile() (string, error) {
	if name := os.Getenv("OPENRESPONSES_OPENAPI"); name != "" {
		return name, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(filepath.Dir(dir), "shared", "reference", "openresponses-openapi.json"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory: %w", fs.ErrNotExist)
		}
		dir = parent
	}
}
