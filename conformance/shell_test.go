//go:build unix

package conformance_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A shellBlock is a block of a document that says what to type.
type shellBlock struct {
	line   int
	script string
	// stays says that its last command goes on, as a server does: the next block is
	// for another terminal, once the gateway answers.
	stays bool
	// skip is why a test cannot run it, "" if it can.
	skip string
}

// fencePattern is the beginning of a block: ```sh, ```sh stays, ```sh no-test: REASON.
var fencePattern = regexp.MustCompile("^```(sh|bash|shell)\\b ?(.*)$")

// shellBlocks finds the blocks of a document.
func shellBlocks(text string) (blocks []shellBlock, err error) {
	var script []string
	var block *shellBlock
	for i, line := range strings.Split(text, "\n") {
		fence := fencePattern.FindStringSubmatch(line)
		switch {
		case block != nil && line == "```":
			block.script = strings.Join(script, "\n") + "\n"
			blocks = append(blocks, *block)
			block, script = nil, nil
		case block != nil:
			script = append(script, line)
		case fence != nil:
			block = &shellBlock{line: i + 1}
			reason, skipped := strings.CutPrefix(fence[2], "no-test:")
			block.skip = strings.TrimSpace(reason)
			switch {
			case fence[2] == "stays":
				block.stays, block.skip = true, ""
			case skipped && block.skip == "":
				return nil, fmt.Errorf("line %d: no reason not to test it", i+1)
			case !skipped && fence[2] != "":
				return nil, fmt.Errorf("line %d: %q is no word that a block knows", i+1, fence[2])
			}
		}
	}
	return blocks, nil
}

// maxSkipped is how many blocks of a document may be left to the reader.
const maxSkipped = 2

// TestShellBlocks runs what the README and the quickstart tell to type, in the order
// in which they tell it, in one directory (R35). Ports are free ones in place of
// those that the documents name; curl fails where a server answers with an error.
func TestShellBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the commands")
	}
	t.Parallel()
	for _, document := range []string{"README.md", "docs/quickstart.md"} {
		t.Run(filepath.Base(document), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", document))
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := shellBlocks(string(text))
			if err != nil {
				t.Fatalf("%s: %v", document, err)
			}
			shell := newShell(t)
			ran, skipped := 0, 0
			for _, b := range blocks {
				if b.skip != "" {
					t.Logf("%s:%d is left to the reader: %s", document, b.line, b.skip)
					skipped++
					continue
				}
				ran++
				if err := shell.run(t, &b); err != nil {
					t.Fatalf("%s:%d: %v\n%s", document, b.line, err, b.script)
				}
			}
			if ran < 2 || skipped > maxSkipped {
				t.Errorf("%s: %d blocks were run, %d were not", document, ran, skipped)
			}
		})
	}
}

// A shell runs blocks, each in a process group of its own that ends with the test.
type shell struct {
	environment []string
	ports       *strings.Replacer
	gateway     string // host:port
}

func newShell(t *testing.T) *shell {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte("fail-with-body\nsilent\nshow-error\nmax-time = 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs("../bin")
	if err != nil {
		t.Fatal(err)
	}
	port := func() string {
		_, port, _ := net.SplitHostPort(freeAddress(t))
		return port
	}
	api, admin, second, model := port(), port(), port(), port()
	environment := []string{"HOME=" + home, "CURL_HOME=" + home, "TMPDIR=" + t.TempDir(), "PATH=" + bin + ":" + os.Getenv("PATH"), "ANTIPHON_LISTEN=127.0.0.1:" + api}
	for _, name := range []string{"GOTOOLCHAIN", "GOFLAGS", "GOPROXY", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		if v, ok := os.LookupEnv(name); ok {
			environment = append(environment, name+"="+v)
		}
	}
	environment = append(environment, goDirs(t)...)
	return &shell{
		environment: environment, gateway: "127.0.0.1:" + api,
		ports: strings.NewReplacer(":4100", ":"+api, ":4101", ":"+admin, ":4102", ":"+second, ":8000", ":"+model),
	}
}

// goDirs keeps what Go has fetched and built where it is, although HOME is another.
func goDirs(t *testing.T) (variables []string) {
	t.Helper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} {
		variables = append(variables, name+"="+strings.TrimSpace(run(t, "..", nil, "go", "env", name)))
	}
	return variables
}

// run runs a block to its end or, if it stays, until the gateway answers.
func (s *shell) run(t *testing.T, b *shellBlock) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	// What was begun with & belongs to the group, and ends with the test.
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", s.ports.Replace(b.script))
	cmd.Dir, cmd.Env = "..", s.environment
	ownGroup(cmd, syscall.SIGTERM)
	// A file, because what runs on with & goes on to write.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		cancel()
		return err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	ended := make(chan struct{})
	var exit error // readable once ended is closed
	go func() {
		defer close(ended)
		exit = cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // gone, or what ran on with &
		if t.Failed() {
			wrote, _ := os.ReadFile(output.Name())
			t.Logf("line %d wrote:\n%s", b.line, wrote)
		}
	})
	if b.stays {
		if !awaitAnswer(t, "http://"+s.gateway+"/healthz", ended) {
			return fmt.Errorf("the gateway does not answer")
		}
		return nil
	}
	select {
	case <-ended:
	case <-time.After(3 * time.Minute):
		return fmt.Errorf("it does not end; a block that is to go on begins with ```sh stays")
	}
	return exit
}

func TestShellBlocksAreFound(t *testing.T) {
	t.Parallel()
	blocks, err := shellBlocks("a\n```sh\none\ntwo\n```\n```python\nno\n```\n```sh stays\nserve\n```\n```sh no-test: a login\nx\n```\n")
	if err != nil || len(blocks) != 3 || blocks[0].script != "one\ntwo\n" || !blocks[1].stays || blocks[2].skip != "a login" {
		t.Errorf("%+v, %v", blocks, err)
	}
	for _, text := range []string{"```sh no-test:\nx\n```\n", "```sh maybe\nx\n```\n"} {
		if _, err := shellBlocks(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
