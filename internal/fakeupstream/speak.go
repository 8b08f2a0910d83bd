package fakeupstream

import (
	"errors"
	"time"
)

// errScripted ends an answer where the prompt wants an error inside the stream.
var errScripted = errors.New("fakeupstream: the prompt asked for an error")

// A voice puts an answer into a protocol's words. Its methods are called in
// order: open, one token or more, shut; for each part.
type voice interface {
	open(p *part) error
	token(tok []byte) error
	// shut ends the part; complete is false if the limit cut it short.
	shut(complete bool) error
}

// tally counts what was said.
type tally struct {
	output    int // tokens, with reasoning
	reasoning int
	truncated bool // the limit was reached before the end
}

// speak says the parts of an answer with v, up to limit tokens; zero means no
// limit. A part that would be empty is not opened.
func speak(v voice, parts []part, limit int) (tally, error) {
	var t tally
	for i := range parts {
		p := &parts[i]
		opened := false
		for tok := range p.tokens {
			if limit > 0 && t.output == limit {
				t.truncated = true
				break
			}
			if !opened {
				opened = true
				if err := v.open(p); err != nil {
					return t, err
				}
			}
			t.output++
			if p.kind == reasoningPart {
				t.reasoning++
			}
			if err := v.token(tok); err != nil {
				return t, err
			}
		}
		if opened {
			if err := v.shut(!t.truncated); err != nil {
				return t, err
			}
		}
		if t.truncated {
			break
		}
	}
	return t, nil
}

// pacer sets the rhythm of a streamed answer and lets its faults strike.
type pacer struct {
	w      *Writer
	faults *directives
	delay  time.Duration
	sent   int // tokens
}

// send writes the frame of a token.
func (p *pacer) send(kind partKind, frame []byte) error {
	if p.sent > 0 {
		if err := p.w.Sleep(p.delay); err != nil {
			return err
		}
	}
	if _, err := p.w.Write(frame); err != nil {
		return err
	}
	p.sent++
	if p.sent == 1 {
		switch {
		case p.faults.stall:
			p.w.Arm(Stall, 0)
		case p.faults.cut:
			p.w.Arm(Cut, midFrame)
		}
	}
	if p.faults.err && kind != reasoningPart {
		return errScripted
	}
	return nil
}
