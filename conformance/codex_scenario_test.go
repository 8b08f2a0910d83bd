//go:build unix

package conformance_test

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// A codexSurface is a set of tools that Codex gives a model: it depends on what
// Codex knows about the model's name.
type codexSurface struct {
	name  string
	model string
	// code means that the model has one tool, exec, which runs JavaScript that
	// calls the others.
	code bool
	// search means that the tools of MCP servers have to be looked for.
	search bool
}

var (
	unknownSurface = codexSurface{name: "unknown model", model: "tiny"}
	searchSurface  = codexSurface{name: "gpt-5.5", model: "gpt-5.5", search: true}
	codeSurface    = codexSurface{name: "gpt-6.1-sol", model: "gpt-6.1-sol", code: true}
	codexSurfaces  = []codexSurface{unknownSurface, searchSurface, codeSurface}
)

// A codexScenario is something that Codex does for its user.
type codexScenario struct {
	name     string
	on       []codexSurface
	native   bool // over a native upstream only
	gateways int  // zero means one
	run      func(*codexStage) error
}

var codexScenarios = []codexScenario{
	{name: "text", on: codexSurfaces, run: scenarioText},
	{name: "every header arrives", on: codexSurfaces, native: true, run: scenarioHeaders},
	{name: "reasoning", on: codexSurfaces, run: scenarioReasoning},
	{name: "shell command", on: codexSurfaces, run: scenarioCommand},
	{name: "two commands in a row", on: codexSurfaces, run: scenarioTwoCommands},
	{name: "two commands at once", on: []codexSurface{unknownSurface, searchSurface}, run: scenarioParallel},
	{name: "patch of a file", on: codexSurfaces, run: scenarioPatch},
	{name: "MCP tool", on: codexSurfaces, run: scenarioMCP},
	{name: "tool search", on: []codexSurface{searchSurface}, run: scenarioSearch},
	{name: "JavaScript", on: []codexSurface{codeSurface}, run: scenarioCode},
	{name: "output schema", on: codexSurfaces, run: scenarioSchema},
	{name: "image", on: codexSurfaces, run: scenarioImage},
	{name: "compaction by a prompt", on: codexSurfaces, run: scenarioSummary},
	{name: "compaction by the provider", on: codexSurfaces, run: scenarioCompaction},
	{name: "20 steps with reasoning", on: codexSurfaces, run: scenarioManySteps},
	{name: "20 steps with reasoning, two gateways in turn", on: codexSurfaces, gateways: 2, run: scenarioManySteps},
}

// call is a step of the prompt that has the model call a tool.
func (s codexSurface) call(tool string, arguments any) string {
	text, err := json.Marshal(arguments, json.Deterministic(true))
	if err != nil {
		panic(err) // they are written down below
	}
	if !s.code {
		return fmt.Sprintf("[[call %s %s]]", tool, text)
	}
	script, err := json.Marshal(fmt.Sprintf("const r = await tools.%s(%s); text(JSON.stringify(r));", tool, text))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("[[call exec %s]]", script)
}

func (s codexSurface) shell(command string) string {
	return s.call("exec_command", map[string]string{"cmd": command})
}

// ask runs Codex with a prompt and expects the turn to end well, and Codex to
// have made a number of requests by then, those of earlier turns included.
func (s *codexStage) ask(requests int, arguments ...string) (*codexRun, error) {
	result, err := s.exec(arguments...)
	if err != nil {
		return nil, err
	}
	if err := result.check(); err != nil {
		return nil, err
	}
	if n := len(s.tap.requests()); n != requests {
		return nil, fmt.Errorf("Codex made %d requests, want %d", n, requests)
	}
	return result, nil
}

// holds returns an error unless text has all the parts.
func holds(text string, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return fmt.Errorf("%q does not hold %q", text, part)
		}
	}
	return nil
}

func same(what string, want, got any) error {
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return nil
}

func scenarioText(s *codexStage) error {
	result, err := s.ask(1, "no tool, say hello")
	if err != nil {
		return err
	}
	return same("answer", "You said: no tool, say hello", result.answer())
}

func scenarioReasoning(s *codexStage) error {
	result, err := s.ask(2, "[[reason]]"+s.surface.shell("echo marker")+"[[reason]]")
	if err != nil {
		return err
	}
	var thoughts []string
	for _, item := range result.items("reasoning") {
		thoughts = append(thoughts, item.Text)
	}
	tool := "exec_command"
	if s.surface.code {
		tool = "exec"
	}
	return same("reasoning", []string{"Step 1: I call " + tool + ".", "Step 2: I answer."}, thoughts)
}

func scenarioCommand(s *codexStage) error {
	result, err := s.ask(2, s.surface.shell("echo marker; pwd"))
	if err != nil {
		return err
	}
	commands := result.items("command_execution")
	if len(commands) != 1 || commands[0].Status != "completed" {
		return fmt.Errorf("commands %+v", commands)
	}
	return errors.Join(
		holds(commands[0].Output, "marker\n", filepath.Base(s.work)),
		holds(result.answer(), "The tool answered: ", "marker", filepath.Base(s.work)),
	)
}

func scenarioTwoCommands(s *codexStage) error {
	result, err := s.ask(3, s.surface.shell("echo marker > note")+s.surface.shell("cat note"))
	if err != nil {
		return err
	}
	return holds(result.answer(), "The tool answered: ", "marker")
}

func scenarioParallel(s *codexStage) error {
	first, second := s.surface.shell("echo one"), s.surface.shell("echo two")
	result, err := s.ask(2, first+strings.Replace(second, "[[call", "[[and", 1))
	if err != nil {
		return err
	}
	return holds(result.answer(), "The tool answered: ", "one", "two")
}

func scenarioPatch(s *codexStage) error {
	const patch = "*** Begin Patch\n*** Update File: list.txt\n@@\n one\n-two\n+2 [[\"two\"]]\n*** End Patch"
	file := filepath.Join(s.work, "list.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		return err
	}
	prompt := s.surface.call("apply_patch", patch)
	if s.surface == unknownSurface {
		// It has no such tool; Codex understands the command.
		prompt = s.surface.shell("apply_patch <<'EOF'\n" + patch + "\nEOF\n")
	}
	result, err := s.ask(2, prompt)
	if err != nil {
		return err
	}
	patched, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	changes := result.items("file_change")
	if len(changes) != 1 || changes[0].Status != "completed" || len(changes[0].Changes) != 1 || changes[0].Changes[0].Kind != "update" {
		err = fmt.Errorf("changes %+v", changes)
	}
	return errors.Join(err, same("file", "one\n2 [[\"two\"]]\n", string(patched)))
}

func scenarioMCP(s *codexStage) error {
	arguments := map[string]string{"city": "Oslo"}
	prompt, requests := s.surface.call("get_weather", arguments), 2
	switch {
	case s.surface.code:
		prompt = s.surface.call("mcp__toy__get_weather", arguments)
	case s.surface.search:
		prompt, requests = `[[call tool_search {"query":"weather"}]]`+prompt, 3
	}
	result, err := s.ask(requests, prompt)
	if err != nil {
		return err
	}
	calls := result.items("mcp_tool_call")
	if len(calls) != 1 || calls[0].Server != "toy" || calls[0].Tool != "get_weather" || calls[0].Status != "completed" {
		err = fmt.Errorf("MCP calls %+v", calls)
	}
	return errors.Join(err, holds(result.answer(), "The tool answered: ", "Sunny in Oslo"))
}

func scenarioSearch(s *codexStage) error {
	result, err := s.ask(2, `[[call tool_search {"query":"weather","limit":3}]]`)
	if err != nil {
		return err
	}
	return holds(result.answer(), "The tool answered: ", "get_weather")
}

func scenarioCode(s *codexStage) error {
	result, err := s.ask(2, `[[call exec "const list = [[1, 2], [3]]; text('sum ' + list.flat().reduce((a, b) => a + b));"]]`)
	if err != nil {
		return err
	}
	return holds(result.answer(), "The tool answered: ", "sum 6")
}

func scenarioSchema(s *codexStage) error {
	const schema = `{"type":"object","properties":{"answer":{"type":"string"},"sure":{"type":"boolean"}},"required":["answer","sure"],"additionalProperties":false}`
	file := filepath.Join(s.work, "schema.json")
	if err := os.WriteFile(file, []byte(schema), 0o600); err != nil {
		return err
	}
	result, err := s.ask(1, "--output-schema", file, "no tool, answer")
	if err != nil {
		return err
	}
	return same("answer", `{"answer":"x","sure":true}`, result.answer())
}

func scenarioImage(s *codexStage) error {
	file := filepath.Join(s.work, "dot.png")
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(png.Encode(out, image.NewGray(image.Rect(0, 0, 4, 4))), out.Close()); err != nil {
		return err
	}
	result, err := s.ask(1, "no tool, what is this?", "-i", file)
	if err != nil {
		return err
	}
	return same("answer", "I see 1 image(s): image/png.", result.answer())
}

// scenarioSummary lets the second turn begin above the limit at which Codex has
// the model sum up the conversation.
func scenarioSummary(s *codexStage) error {
	if _, err := s.ask(1, "no tool, remember the word marker"); err != nil {
		return err
	}
	result, err := s.ask(3, "-c", "model_auto_compact_token_limit=100", "resume", "--last", "no tool, go on")
	if err != nil {
		return err
	}
	sent := s.tap.requests()
	return errors.Join(
		same("answer", "You said: no tool, go on", result.answer()),
		holds(string(sent[1].body), "CONTEXT CHECKPOINT COMPACTION"),
		holds(string(sent[2].body), "Another language model started to solve this problem", "no tool, go on"),
	)
}

// scenarioCompaction does the same with the provider that Codex has built in,
// which it expects to know how to compact.
func scenarioCompaction(s *codexStage) error {
	s.provider = asBuiltInProvider
	if _, err := s.ask(1, "no tool, remember the word marker"); err != nil {
		return err
	}
	result, err := s.ask(3, "-c", "model_auto_compact_token_limit=100", "resume", "--last", "no tool, go on")
	if err != nil {
		return err
	}
	err = same("answer", "You said: no tool, go on", result.answer())
	if last := s.arrived(); len(last) == 3 && last[2].Path == "/v1/chat/completions" {
		// The gateway had the model sum up, and this is the only answer left.
		err = errors.Join(err, holds(string(last[2].Body), "You said: "))
	}
	for n, item := range []string{1: "compaction_trigger", 2: "compaction"} {
		types, typesErr := s.tap.requests()[n].inputTypes()
		if item != "" && !slices.Contains(types, item) {
			err = errors.Join(err, typesErr, fmt.Errorf("request %d has items %q, want %s among them", n, types, item))
		}
	}
	return err
}

// scenarioHeaders asks as both kinds of provider, which get different headers.
func scenarioHeaders(s *codexStage) error {
	if _, err := s.ask(1, "no tool, hello"); err != nil {
		return err
	}
	s.provider = asBuiltInProvider
	if _, err := s.ask(2, "no tool, hello"); err != nil {
		return err
	}
	return s.compareRequests(compareHeaders)
}

// scenarioManySteps has the model insist that its reasoning comes back with
// every call that it made, and under the less common of its names: only what
// the gateway has sealed tells which one that was.
func scenarioManySteps(s *codexStage) error {
	const steps = 20
	prompt := "[[insist]][[short-reasoning]]"
	for i := range steps {
		prompt += "[[reason]]" + s.surface.shell("echo marker "+strconv.Itoa(i+1))
	}
	result, err := s.ask(steps+1, prompt+"[[reason]]")
	if err != nil {
		return err
	}
	if n := len(result.items("reasoning")); n != steps+1 {
		err = fmt.Errorf("%d thoughts, want %d", n, steps+1)
	}
	return errors.Join(err, holds(result.answer(), "The tool answered: ", "marker 20"))
}
