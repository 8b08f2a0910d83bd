package codex

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// A golden is one file of testdata: prose that says what it proves, then
//
//   - request.json: the client's request.
//   - options.json (optional): the options of the driver that matter here.
//   - calls.jsonl: what the app-server must be told, a line for each call.
//   - notes.jsonl: its notifications about the thread, after turn/start.
//   - losses.json, events.jsonl: what must come of it.
//   - refused.json: the code and param of a request that must be refused. There is
//     nothing but the request besides.
type golden struct {
	path    string
	archive *txtar.Archive
}

// update is upstreamtest's flag.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func (g *golden) section(name string) string {
	for _, f := range g.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// compare checks a section, or rewrites it.
func (g *golden) compare(t *testing.T, name, got string) {
	t.Helper()
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if !updating() {
		if diff := cmp.Diff(g.section(name), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return
	}
	for i := range g.archive.Files {
		if g.archive.Files[i].Name == name {
			g.archive.Files[i].Data = []byte(got)
			return
		}
	}
	if got != "" {
		g.archive.Files = append(g.archive.Files, txtar.File{Name: name, Data: []byte(got)})
	}
}

func loadGoldens(t testing.TB) []*golden {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	var goldens []*golden
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		goldens = append(goldens, &golden{p, txtar.Parse(data)})
	}
	return goldens
}

// TestGoldens holds encoder and decoder to testdata (R61).
func TestGoldens(t *testing.T) {
	t.Parallel()
	for _, g := range loadGoldens(t) {
		t.Run(strings.TrimSuffix(filepath.Base(g.path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			g.run(t)
			if updating() {
				if err := os.WriteFile(g.path, txtar.Format(g.archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func (g *golden) run(t *testing.T) {
	if len(bytes.TrimSpace(g.archive.Comment)) == 0 {
		t.Error("no prose that says what it proves")
	}
	turn, opts := g.turn(t)
	enc, err := encode(turn, opts)
	if err != nil {
		e := responses.AsError(err)
		refused, err := json.Marshal(&upstreamtest.Refusal{Code: e.Code, Param: e.Param})
		if err != nil {
			t.Fatal(err)
		}
		g.compare(t, "refused.json", string(refused))
		return
	}
	if want := g.section("refused.json"); want != "" {
		t.Fatalf("the request was not refused: %s", want)
	}
	g.compare(t, "calls.jsonl", calls3(t, enc))
	lines, losses := g.decode(t, enc, opts, strings.Split(g.section("notes.jsonl"), "\n"))
	g.compare(t, "losses.json", lossLines(t, append(enc.losses, losses...)))
	g.compare(t, "events.jsonl", strings.Join(lines, "\n"))
	g.cuts(t, enc, opts, lines)
}

func (g *golden) turn(t testing.TB) (*upstream.Turn, *Options) {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(g.section("request.json")), nil)
	if err != nil {
		t.Fatalf("the golden's request: %v", err)
	}
	var opts Options
	if o := g.section("options.json"); o != "" {
		if err := json.Unmarshal([]byte(o), &opts, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
	}
	return &upstream.Turn{Request: req, Owner: "golden", RunID: "resp_019a0000000070018000000000000001"}, &opts
}

// calls3 renders the three calls that a turn is begun with.
func calls3(t *testing.T, enc *encoded) string {
	t.Helper()
	var out strings.Builder
	for _, c := range []any{&enc.start, &inject{"", enc.items}, &enc.turn} {
		line, err := json.Marshal(c, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.String()
}

func lossLines(t *testing.T, losses []responses.Loss) string {
	t.Helper()
	if len(losses) == 0 {
		return ""
	}
	out, err := json.Marshal(losses, jsontext.Multiline(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// decode feeds notifications to a decoder and renders its events.
func (g *golden) decode(t *testing.T, enc *encoded, opts *Options, notes []string) (lines []string, losses []responses.Loss) {
	t.Helper()
	render := &upstreamtest.Lines{Given: [][]byte{[]byte(g.section("notes.jsonl")), []byte(g.section("request.json"))}}
	grammar := responses.NewTurnGrammar()
	dec := newDecoder(responses.NewComposer(0, time.Now), enc.box)
	dec.degrade = opts.Degrade
	for _, raw := range notes {
		if strings.TrimSpace(raw) == "" {
			continue
		}
		var m struct {
			Method string `json:"method"`
			Params note   `json:"params"`
		}
		if err := json.Unmarshal([]byte(raw), &m); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		err := dec.Push(m.Method, &m.Params)
		for _, ev := range dec.out.Take() {
			if err := grammar.Check(&ev); err != nil {
				t.Errorf("%s: %v", ev.Type, err)
			}
			line, err := render.Event(ev)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
		if err != nil {
			line, err := render.Error(err)
			if err != nil {
				t.Fatal(err)
			}
			return append(lines, line), nil
		}
	}
	return lines, nil
}

// cuts ends the notifications after each of them: what was said so far is said, and
// nothing ends that has not ended.
func (g *golden) cuts(t *testing.T, enc *encoded, opts *Options, whole []string) {
	t.Helper()
	notes := strings.Split(strings.TrimSpace(g.section("notes.jsonl")), "\n")
	for n := range notes {
		lines, _ := g.decode(t, enc, opts, notes[:n])
		if len(lines) > len(whole) || !cmp.Equal(lines, append([]string(nil), whole[:len(lines)]...)) && len(lines) > 0 {
			t.Errorf("after %d notifications the events differ (-whole +cut):\n%s", n, cmp.Diff(whole, lines))
		}
	}
}

// FuzzDecode: whatever the app-server says of a turn, the decoder does not panic,
// and what it makes is legal.
func FuzzDecode(f *testing.F) {
	for _, g := range loadGoldens(f) {
		f.Add([]byte(g.section("notes.jsonl")))
	}
	f.Fuzz(func(t *testing.T, notes []byte) {
		req, err := responses.DecodeRequest([]byte(`{"model":"m","input":"x","tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		box, err := upstream.NewToolbox(req)
		if err != nil {
			t.Fatal(err)
		}
		dec := newDecoder(responses.NewComposer(0, time.Now), box)
		grammar := responses.NewTurnGrammar()
		for line := range bytes.Lines(notes) {
			var m struct {
				Method string `json:"method"`
				Params note   `json:"params"`
			}
			if json.Unmarshal(line, &m) != nil {
				continue
			}
			err := dec.Push(m.Method, &m.Params)
			for _, ev := range dec.out.Take() {
				if err := grammar.Check(&ev); err != nil {
					t.Fatalf("%s: %v", ev.Type, err)
				}
			}
			if err != nil {
				return
			}
		}
		if dec.Ended() != grammar.Ended() {
			t.Errorf("the decoder says %t, the grammar %t", dec.Ended(), grammar.Ended())
		}
	})
}
