package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes is the size of the largest file that is read: enough for a hundred
// thousand keys, each with a tenant, models and limits.
const MaxBytes = 32 << 20

// ParseOptions configures [Parse]. The zero value is usable.
type ParseOptions struct {
	// Name is what problems call the file.
	Name string
	// LookupEnv resolves ${NAME}. Nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// ReadFile resolves ${file:/path}. Nil means to read the file, which must be a
	// regular one of at most [MaxReferencedBytes].
	ReadFile func(path string) ([]byte, error)
}

// Load reads, parses and validates the file at path. The error is an [*Error] if
// the file could be read.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return Parse(data, &ParseOptions{Name: path})
}

// Parse returns the configuration in data, with references to the environment
// and to files resolved, defaults filled in, and validated. The error is an [*Error].
func Parse(data []byte, opts *ParseOptions) (*Config, error) {
	if opts == nil {
		opts = &ParseOptions{}
	}
	d := decoder{refs: references{lookup: opts.LookupEnv, readFile: opts.ReadFile}, places: map[string]place{}}
	if d.refs.lookup == nil {
		d.refs.lookup = os.LookupEnv
	}
	if d.refs.readFile == nil {
		d.refs.readFile = readReferenced
	}
	c := Default()
	if root := d.parse(data); root != nil {
		d.decode(root, c)
	}
	if !d.broken {
		d.addInvalid(c.problems())
	}
	if err := d.problems.err(opts.Name); err != nil {
		return nil, err
	}
	c.fillIn()
	return c, nil
}

// parse returns the root of the file's only document; nil if it is empty or
// broken.
func (d *decoder) parse(data []byte) ast.Node {
	d.broken = true
	if len(data) > MaxBytes {
		d.problems.addf("", "the file is larger than %d bytes", MaxBytes)
		return nil
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntaxError(err)
		return nil
	}
	if len(file.Docs) > 1 {
		d.problems.addf("", "the file has %d documents; keep the first and remove the --- line after it", len(file.Docs))
		return nil
	}
	d.broken = false
	if len(file.Docs) == 0 {
		return nil
	}
	return file.Docs[0].Body
}

// syntaxError reports text that is no YAML. A key that occurs twice is one: the
// parser refuses it.
func (d *decoder) syntaxError(err error) {
	p := Problem{Text: "not valid YAML: " + err.Error()}
	if e, ok := errors.AsType[yaml.Error](err); ok {
		p.Text = "not valid YAML: " + e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
	}
	d.problems = append(d.problems, p)
}
