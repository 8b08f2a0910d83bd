package engine

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/tool"
)

// TestStuckCalls: a tool that does not return when its time is over is left behind,
// and counts as running until it does; there may be only so many (R44).
func TestStuckCalls(t *testing.T) {
	t.Parallel()
	e := New(nil, nil)
	e.executing = make(chan struct{}, 1)
	r := &Run{engine: e, hosting: &hosting{limits: ToolLimits{CallTime: time.Millisecond}.withDefaults()}}
	call := &tool.Call{Arguments: jsontext.Value("{}"), MaxBytes: 100}
	block := make(chan struct{})
	stuck := &tool.Set{Run: func(context.Context, *tool.Call) (*tool.Result, error) { <-block; return nil, nil }}
	if o := r.runOne(t.Context(), stuck, call); !errors.Is(o.err, errCallTime) {
		t.Errorf("a tool that is stuck: %v", o.err)
	}
	quick := &tool.Set{Run: func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("ok"), nil }}
	if o := r.runOne(t.Context(), quick, call); !errors.Is(o.err, errTooMany) {
		t.Errorf("another one meanwhile: %v", o.err)
	}
	close(block)
	r.hosting.limits.CallTime = time.Minute
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if o := r.runOne(t.Context(), quick, call); o.err == nil {
			return
		} else if time.Since(began) > 10*time.Second {
			t.Fatalf("after it has returned: %v", o.err)
		}
	}
}
