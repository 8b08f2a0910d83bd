//go:build unix

package stdiorpc_test

import (
	"bufio"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asPeer makes the test binary be a peer of the named kind.
const asPeer = "STDIORPC_TEST_PEER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asPeer); kind != "" {
		peers[kind]()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// line is a message as the peers write and read it.
type line struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

func say(l line) {
	b, err := json.Marshal(&l)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", b)
}

// peers are what the test binary can be instead of a test.
var peers = map[string]func(){
	// polite answers echo with its parameters, tells what it got, asks when it is
	// told to ask, and leaves when its input ends.
	"polite": func() {
		in := bufio.NewScanner(os.Stdin)
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			var l line
			if err := json.Unmarshal(in.Bytes(), &l); err != nil {
				panic(err)
			}
			switch l.Method {
			case "echo":
				say(line{Method: "got", Params: l.Params})
				say(line{ID: l.ID, Result: l.Params})
			case "refuse":
				say(line{ID: l.ID, Error: jsontext.Value(`{"code":-32000,"message":"No."}`)})
			case "ask":
				say(line{ID: jsontext.Value(`"mine"`), Method: "question", Params: l.Params})
				say(line{ID: l.ID, Result: jsontext.Value("null")})
			case "die":
				fmt.Fprintln(os.Stderr, "the peer is tired")
				fmt.Print(`{"id":1,"resu`)
				os.Exit(3)
			case "":
				say(line{Method: "answered", Params: jsontext.Value(in.Text())})
			}
		}
	},
	// deaf reads nothing and says nothing, and does not care for anything.
	"deaf": func() { time.Sleep(time.Hour) },
	// parent starts a child that holds its output, says its number, and stays.
	"parent": func() {
		child := exec.Command(os.Args[0])
		child.Env = []string{asPeer + "=deaf"}
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		say(line{Method: "child", Params: fmt.Appendf(nil, "%d", child.Process.Pid)})
		time.Sleep(time.Hour)
	},
	// orphan starts a child outside of its group that holds its output, and ends.
	"orphan": func() {
		child := exec.Command(os.Args[0])
		child.Env = []string{asPeer + "=deaf"}
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		say(line{Method: "child", Params: fmt.Appendf(nil, "%d", child.Process.Pid)})
	},
	// shouter writes one line without an end.
	"shouter": func() {
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<20)); err != nil {
				return
			}
		}
	},
	// asker asks and never reads.
	"asker": func() {
		for i := 0; ; i++ {
			say(line{ID: fmt.Appendf(nil, "%d", i), Method: "question"})
		}
	},
}
