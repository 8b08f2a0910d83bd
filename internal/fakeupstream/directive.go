package fakeupstream

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// maxDelay bounds what a prompt may ask for between two tokens.
const maxDelay = time.Minute

// midFrame is how far into the frame after the first token a cut falls: every
// frame that can follow is longer.
const midFrame = 60

// directives are the faults that a prompt asks for in double brackets.
type directives struct {
	status     int    // [[status 500]]
	retryAfter string // [[retry-after 2]]
	err        bool   // [[error]]
	cut        bool   // [[cut]]
	cutAt      bool   // [[cut 100]]
	cutAfter   int
	stall      bool          // [[stall]]
	stallFirst bool          // [[stall-first]]
	chunk      int           // [[bytes 1]]
	mediaType  string        // [[type text/html]]
	delay      time.Duration // [[delay 20ms]]
	noUsage    bool          // [[no-usage]]
}

var directivePattern = regexp.MustCompile(`\s*\[\[([A-Za-z-]+)(?:\s+([^\]]*?))?\s*\]\]`)

// takeDirectives returns text without its directives, and the directives. What
// is in brackets but is no directive, or has an argument that makes no sense,
// stays in the text, where the echo shows it.
func takeDirectives(text string) (string, directives) {
	var d directives
	if !strings.Contains(text, "[[") {
		return text, d
	}
	rest := directivePattern.ReplaceAllStringFunc(text, func(match string) string {
		words := directivePattern.FindStringSubmatch(match)
		if d.set(strings.ToLower(words[1]), words[2]) {
			return ""
		}
		return match
	})
	if rest != text {
		rest = strings.TrimSpace(rest)
	}
	return rest, d
}

// set reports whether the name and its argument are a directive.
func (d *directives) set(name, arg string) bool {
	switch name {
	case "status":
		return d.setStatus(arg)
	case "retry-after":
		d.retryAfter = arg
		return arg != ""
	case "cut":
		return d.setCut(arg)
	case "bytes":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 1 {
			return false
		}
		d.chunk = n
	case "type":
		d.mediaType = arg
		return arg != ""
	case "delay":
		delay, err := time.ParseDuration(arg)
		if err != nil || delay < 0 {
			return false
		}
		d.delay = min(delay, maxDelay)
	default:
		return arg == "" && d.setFlag(name)
	}
	return true
}

func (d *directives) setFlag(name string) bool {
	switch name {
	case "error":
		d.err = true
	case "stall":
		d.stall = true
	case "stall-first":
		d.stallFirst = true
	case "no-usage":
		d.noUsage = true
	default:
		return false
	}
	return true
}

func (d *directives) setStatus(arg string) bool {
	status, err := strconv.Atoi(arg)
	// Below 200 a status is not the end of an answer.
	if err != nil || status < 200 || status > 599 {
		return false
	}
	d.status = status
	return true
}

func (d *directives) setCut(arg string) bool {
	if arg == "" {
		d.cut = true
		return true
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return false
	}
	d.cutAt, d.cutAfter = true, n
	return true
}

// failure returns the status of the error that takes the place of an answer, or
// zero. An answer that is not streamed has no other way to fail.
func (d *directives) failure(streamed bool) int {
	if d.status == 0 && d.err && !streamed {
		return http.StatusInternalServerError
	}
	return d.status
}

// apply gives r the faults that need not know where in the answer they strike.
func (d *directives) apply(r Reply) Reply {
	if d.retryAfter != "" {
		if r.Header == nil {
			r.Header = http.Header{}
		}
		r.Header.Set("Retry-After", d.retryAfter)
	}
	if d.mediaType != "" {
		r.ContentType = d.mediaType
	}
	r.Fault.Chunk = d.chunk
	switch {
	case d.stallFirst:
		r.Fault.Kind = StallFirst
	case d.cutAt:
		r.Fault.Kind, r.Fault.After = Cut, d.cutAfter
	case r.Stream == nil && d.cut:
		r.Fault.Kind, r.Fault.After = Cut, len(r.Body)/2
	case r.Stream == nil && d.stall:
		r.Fault.Kind, r.Fault.After = Stall, len(r.Body)/2
	}
	return r
}
