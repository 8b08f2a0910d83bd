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

// directives are what a prompt asks for in double brackets: steps and faults.
type directives struct {
	steps  []step // [[call NAME ARGUMENT]], [[and NAME ARGUMENT]]
	thinks bool   // [[reason]] after the last step: before the answer
	insist bool   // [[insist]]
	short  bool   // [[short-reasoning]]

	status     int    // [[status 500]]
	retryAfter string // [[retry-after 2]]
	err        bool   // [[error]]
	errCode    string // [[error rate_limit_exceeded]]
	cut        bool   // [[cut]]
	cutAt      bool   // [[cut 100]]
	cutAfter   int
	stall      bool          // [[stall]]
	stallFirst bool          // [[stall-first]]
	chunk      int           // [[bytes 1]]
	mediaType  string        // [[type text/html]]
	delay      time.Duration // [[delay 20ms]]
	noUsage    bool          // [[no-usage]]
	limit      int           // [[limit 5]]
}

// whiteSpace is what directives are set apart by.
const whiteSpace = " \t\r\n\f"

// directivePattern is a directive behind its opening brackets.
var directivePattern = regexp.MustCompile(`^([A-Za-z-]+)(?:\s+([^\]]*?))?\s*\]\]`)

// takeDirectives returns text without its directives, and the directives. What
// is in brackets but is no directive, or has an argument that makes no sense,
// stays in the text, where the echo shows it.
func takeDirectives(text string) (string, directives) {
	var d directives
	var kept strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "[[")
		if !found {
			kept.WriteString(rest)
			break
		}
		if n := d.take(after); n > 0 {
			kept.WriteString(strings.TrimRight(before, whiteSpace))
			rest = after[n:]
			continue
		}
		// A third bracket may belong to a directive.
		kept.WriteString(before + "[")
		rest = "[" + after
	}
	if kept.Len() == len(text) {
		return text, d
	}
	return strings.TrimSpace(kept.String()), d
}

// take obeys the directive that s, which is behind "[[", begins with, and
// returns its length with the brackets that close it. Zero means that there is
// none.
func (d *directives) take(s string) int {
	if n := d.takeCall(s); n > 0 {
		return n
	}
	match := directivePattern.FindStringSubmatch(s)
	if match == nil || !d.set(strings.ToLower(match[1]), match[2]) {
		return 0
	}
	return len(match[0])
}

// set reports whether the name and its argument are a directive.
func (d *directives) set(name, arg string) bool {
	switch name {
	case "status":
		return d.setStatus(arg)
	case "retry-after":
		d.retryAfter = arg
		return arg != ""
	case "error":
		d.err, d.errCode = true, arg
	case "cut":
		return d.setCut(arg)
	case "bytes":
		return setPositive(&d.chunk, arg)
	case "limit":
		return setPositive(&d.limit, arg)
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
	case "reason":
		d.thinks = true
	case "insist":
		d.insist = true
	case "short-reasoning":
		d.short = true
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

func setPositive(number *int, arg string) bool {
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return false
	}
	*number = n
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

// failure returns the error that takes the place of an answer, if there is one.
// An answer that is not streamed has no other way to fail.
func (d *directives) failure(streamed bool) (Reply, bool) {
	switch {
	case d.status != 0:
		return d.apply(jsonReply(d.status, errorEnvelope{scripted(d.status)})), true
	case d.err && !streamed:
		return d.apply(jsonReply(d.errStatus(), errorEnvelope{d.scriptedError()})), true
	}
	return Reply{}, false
}

// errStatus is the status that goes with the code of [[error]].
func (d *directives) errStatus() int {
	switch d.errCode {
	case "rate_limit_exceeded":
		return http.StatusTooManyRequests
	case "context_length_exceeded", "invalid_prompt":
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// scriptedError is what [[error]] asks for.
func (d *directives) scriptedError() apiError {
	e := scripted(d.errStatus())
	if d.errCode != "" {
		e.Code = &d.errCode
	}
	return e
}

// shorten lowers the most tokens of an answer to what the prompt asks for; zero
// means no limit.
func (d *directives) shorten(limit *int) {
	if d.limit > 0 && (*limit == 0 || d.limit < *limit) {
		*limit = d.limit
	}
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
