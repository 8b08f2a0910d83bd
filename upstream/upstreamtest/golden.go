package upstreamtest

import (
	"bytes"
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/antiphon-dev/antiphon/responses"
)

// The sections of a golden file.
const (
	sectionRequest         = "request.json"
	sectionUpstreamRequest = "upstream_request.json"
	sectionHead            = "upstream_head"
	sectionStream          = "upstream_stream.sse"
	sectionResponse        = "upstream_response.json"
	sectionEvents          = "events.jsonl"
	sectionLosses          = "losses.json"
	sectionRefused         = "refused.json"
)

// A Golden is one file of the contract, in the txtar format: prose that says
// what the file proves, then these sections.
//
//   - request.json: the client's request.
//   - upstream_request.json: what the upstream must receive, compared as JSON.
//   - upstream_stream.sse or upstream_response.json: the body of its answer.
//   - upstream_head (optional): the status on the first line, then headers. Without
//     it the status is 200 and the content type that of the body's section.
//   - events.jsonl: the events that the driver must yield, as [Lines] renders them.
//   - losses.json (optional): the losses of the stream, known when it was opened.
//   - refused.json: the code and param with which the driver must refuse the
//     request before any I/O. A file with it has only request.json besides.
//
// It is an [http.Handler] that gives the upstream's answer to any request. It
// is read-only and may be shared.
type Golden struct {
	// Name is the file's name without its extension; Comment is its prose.
	Name, Comment string
	// Request is the client's request.
	Request []byte
	// UpstreamRequest is what the upstream must receive; nil if it must not
	// receive anything.
	UpstreamRequest []byte
	// Status, Header and Body are the upstream's answer.
	Status int
	Header http.Header
	Body   []byte
	// Streamed is whether Body is an event stream.
	Streamed bool
	// Events are the expected lines.
	Events []string
	// Losses are those expected of the opened stream.
	Losses []responses.Loss
	// Refused is set if the driver must refuse the request.
	Refused *Refusal

	path    string
	archive *txtar.Archive
}

// A Refusal says how a driver must refuse a request that its upstream cannot
// express.
type Refusal struct {
	Code  responses.Code `json:"code"`
	Param string         `json:"param"`
}

// Load reads every .txtar file in dir, in the order of their names. It fails if
// there is none: a suite without a file proves nothing.
func Load(dir string) ([]*Golden, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no .txtar file in %s", dir)
	}
	goldens := make([]*Golden, len(paths))
	for i, path := range paths {
		if goldens[i], err = load(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return goldens, nil
}

func load(path string) (*Golden, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := txtar.Parse(data)
	g := &Golden{
		Name:    strings.TrimSuffix(filepath.Base(path), ".txtar"),
		Comment: string(a.Comment),
		Status:  http.StatusOK,
		Header:  http.Header{},
		path:    path,
		archive: a,
	}
	for _, f := range a.Files {
		if err := g.section(f.Name, f.Data); err != nil {
			return nil, fmt.Errorf("section %s: %w", f.Name, err)
		}
	}
	return g, g.check()
}

// section takes one section of the file.
func (g *Golden) section(name string, data []byte) error {
	switch name {
	case sectionRequest:
		g.Request = bytes.TrimSpace(data)
	case sectionUpstreamRequest:
		g.UpstreamRequest = bytes.TrimSpace(data)
	case sectionHead:
		return g.head(string(data))
	case sectionStream:
		g.Body, g.Streamed = data, true
	case sectionResponse:
		g.Body = data
	case sectionEvents:
		g.Events = slices.Collect(nonBlankLines(string(data)))
	case sectionLosses:
		return json.Unmarshal(data, &g.Losses)
	case sectionRefused:
		return json.Unmarshal(data, &g.Refused, json.RejectUnknownMembers(true))
	default:
		return fmt.Errorf("no such section in the format")
	}
	return nil
}

// head reads the status and the headers of the upstream's answer.
func (g *Golden) head(text string) (err error) {
	first := true
	for line := range nonBlankLines(text) {
		if first {
			first = false
			if g.Status, err = strconv.Atoi(line); err != nil {
				return err
			}
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("header line %q has no colon", line)
		}
		g.Header.Add(name, strings.TrimSpace(value))
	}
	return nil
}

func nonBlankLines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// check says what the file lacks.
func (g *Golden) check() error {
	switch {
	case strings.TrimSpace(g.Comment) == "":
		return fmt.Errorf("no prose that says what it proves")
	case g.Request == nil:
		return fmt.Errorf("no section %s", sectionRequest)
	case g.Refused != nil && g.Body != nil:
		return fmt.Errorf("a refused request has no answer")
	case g.Refused == nil && g.Body == nil:
		return fmt.Errorf("no section %s or %s", sectionStream, sectionResponse)
	}
	if g.Header.Get("Content-Type") == "" {
		g.Header.Set("Content-Type", "application/json")
		if g.Streamed {
			g.Header.Set("Content-Type", "text/event-stream")
		}
	}
	return nil
}

// ServeHTTP gives the upstream's answer.
func (g *Golden) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for name, values := range g.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(g.Status)
	w.Write(g.Body) // a reader that has left is no concern of ours
}

// update rewrites the expected sections of the file with what really came.
func (g *Golden) update(got *outcome) error {
	var losses, sent []byte
	if len(got.losses) > 0 {
		var err error
		if losses, err = json.Marshal(got.losses, jsontext.Multiline(true)); err != nil {
			return err
		}
	}
	if got.sent != nil {
		v := jsontext.Value(bytes.Clone(got.sent))
		if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
			return fmt.Errorf("what the upstream received is not JSON: %w", err)
		}
		sent = v
	}
	g.set(sectionUpstreamRequest, sent)
	g.set(sectionLosses, losses)
	g.set(sectionEvents, []byte(strings.Join(got.lines, "\n")))
	return os.WriteFile(g.path, txtar.Format(g.archive), 0o644)
}

// order is the order of the sections in a file.
var order = []string{
	sectionRequest, sectionUpstreamRequest, sectionHead, sectionStream,
	sectionResponse, sectionLosses, sectionEvents, sectionRefused,
}

// set replaces, adds or, if data is empty, removes a section.
func (g *Golden) set(name string, data []byte) {
	files := slices.DeleteFunc(g.archive.Files, func(f txtar.File) bool { return f.Name == name })
	if len(data) > 0 {
		files = append(files, txtar.File{Name: name, Data: append(data, '\n')})
	}
	slices.SortStableFunc(files, func(a, b txtar.File) int {
		return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
	})
	g.archive.Files = files
}
