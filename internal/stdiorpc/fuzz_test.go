package stdiorpc_test

import (
	"bytes"
	"encoding/json/jsontext"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/stdiorpc"
)

// recording is a peer that says what it was given, and then ends or stays.
type recording struct {
	io.Reader
	stays  bool
	killed chan struct{}
	kill   sync.Once
}

func newRecording(said []byte, stays bool) *recording {
	return &recording{Reader: bytes.NewReader(said), stays: stays, killed: make(chan struct{})}
}

func (r *recording) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err == io.EOF && r.stays {
		<-r.killed
	}
	return n, err
}

func (r *recording) Write(b []byte) (int, error) { return len(b), nil }
func (r *recording) CloseWrite() error           { return nil }
func (r *recording) Kill()                       { r.kill.Do(func() { close(r.killed) }) }
func (r *recording) Wait() error                 { return nil }

// FuzzPeer: whatever a peer says, nothing panics, every call ends, and nothing is
// left behind.
func FuzzPeer(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n\r\n", "\x00\xff\xfe noise \x1b[2J\n", `{"id":1,"result":{}}` + "\n", `{"id":1,"error":{"code":1,"message":"x"}}` + "\n",
		`{"id":1}` + "\n", `{"id":"1","result":1}` + "\n", `{"id":1.5e3,"result":1}` + "\n", `{"id":null,"method":"m"}` + "\n", `{"method":"m","params":[1]}` + "\n",
		`{"id":{"a":1},"method":"m"}` + "\n", `{"id":1,"id":2}` + "\n", `{"method":7}` + "\n", `[1]` + "\n", `{"id":1,"resu`, strings.Repeat("[", 20000) + "\n",
		strings.Repeat("x", 70000) + "\n" + `{"id":1,"result":true}` + "\n", `{"id":1,"error":"text"}` + "\n", `{"id":9223372036854775808,"result":1}` + "\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, said []byte, skip bool) {
		asked := 0
		c := stdiorpc.New(newRecording(said, false), &stdiorpc.Options{
			MaxLine: 64 << 10, SkipMalformed: skip,
			Notify: func(string, jsontext.Value) {},
			Handle: func(r *stdiorpc.Request) {
				if asked++; asked%2 == 0 {
					r.Reply(asked)
				}
			},
		})
		var v any
		_ = c.Call(t.Context(), "m", nil, &v) // it ends: that is all
		<-c.Done()
		c.Close()
		if c.Err() == nil {
			t.Error("the connection ended without a reason")
		}
	})
}

// TestMalformed: a line that is no message ends the connection, unless it is to be
// passed over (R15).
func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"noise": "\x00\x01binary\xff", "half": `{"id":1,"result"`, "no object": `[]`, "empty object": `{}`, "twice": `{"id":1,"id":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strict := stdiorpc.New(newRecording([]byte(said+"\n"+`{"id":1,"result":7}`+"\n"), true), nil)
			defer strict.Close()
			<-strict.Done()
			if err := strict.Err(); !strings.Contains(err.Error(), "no message") {
				t.Errorf("it ended with %v", err)
			}

			heard := make(chan string, 1)
			lax := stdiorpc.New(newRecording([]byte(said+"\n"+`{"method":"still here"}`+"\n"), true), &stdiorpc.Options{
				SkipMalformed: true, CloseTime: time.Millisecond, Notify: func(method string, _ jsontext.Value) { heard <- method },
			})
			defer lax.Close()
			if got := <-heard; got != "still here" {
				t.Errorf("heard %q", got)
			}
		})
	}
}
