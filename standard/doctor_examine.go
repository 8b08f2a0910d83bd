package standard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/upstream"
)

// ExamineOptions configures [Examine]. The zero value is usable.
type ExamineOptions struct {
	// Model is the only one to look at. Empty means all that answer in text, but
	// at most MaxModels.
	Model string
	// MaxModels bounds what an examination costs. Zero means 20.
	MaxModels int
	// Timeout bounds each call. Zero means 60 s.
	Timeout time.Duration
	// Progress is told what is about to be asked. It is called by one goroutine at
	// a time. Nil means nobody.
	Progress func(model, what string)
	// Discovered and Client are as in [Options].
	Discovered bool
	Client     *http.Client
}

// An Examination is what [Examine] found.
type Examination struct {
	// Diagnoses are in the order of upstreams and models. An upstream without
	// models has one too.
	Diagnoses []Diagnosis
	// Skipped are models that were not looked at, because they do not answer in
	// text or because there are too many.
	Skipped []string
}

// Healthy reports whether everything that was looked at answers.
func (e *Examination) Healthy() bool {
	return !slices.ContainsFunc(e.Diagnoses, func(d Diagnosis) bool { return d.Reachable != Yes })
}

// maxExamined is how many upstreams are examined at once. Each is asked one thing at
// a time: local servers load one model after another.
const maxExamined = 4

// Examine builds the gateway that c describes and finds out what its models can do,
// by a handful of short calls to each through the gateway itself. What it finds wrong
// is no error. Errors are those of [New], of ctx, and a model that nobody serves.
func Examine(ctx context.Context, c *config.Config, opts *ExamineOptions) (*Examination, error) {
	x := examiner{progress: func(string, string) {}}
	if opts == nil {
		opts = &ExamineOptions{}
	}
	if opts.Progress != nil {
		x.progress = opts.Progress
	}
	x.client = witnessed(opts.Client)
	gateway, report, err := x.build(ctx, c, opts.Discovered)
	if err != nil {
		return nil, err
	}
	x.caller = caller{handler: gateway.Handler(), time: cmp.Or(opts.Timeout, time.Minute)}
	found, err := x.examine(ctx, c, report, opts)
	return found, errors.Join(err, gateway.Close())
}

type examiner struct {
	client *http.Client
	caller caller

	mu       sync.Mutex
	progress func(model, what string) // guarded by mu
}

// witnessed returns a client like c whose calls have witnesses.
func witnessed(c *http.Client) *http.Client {
	if c == nil {
		c = upstream.NewClient()
	}
	w := *c
	transport := w.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	w.Transport = witnessing{transport}
	return &w
}

func (x *examiner) build(ctx context.Context, c *config.Config, discovered bool) (g *antiphon.Gateway, report *Report, err error) {
	g, err = New(ctx, c, &Options{
		Report:     func(r *Report) { report = r },
		Discovered: discovered,
		Client:     x.client,
		Logger:     slog.New(slog.DiscardHandler), // what is wrong is in the diagnoses
	})
	return g, report, err
}

// examine makes the checkups, each upstream's one after another.
func (x *examiner) examine(ctx context.Context, c *config.Config, report *Report, opts *ExamineOptions) (*Examination, error) {
	checkups, skipped, err := plan(c, report, opts)
	if err != nil {
		return nil, err
	}
	diagnoses := make([]Diagnosis, len(checkups))
	slots := make(chan struct{}, maxExamined)
	var wg sync.WaitGroup
	for i := range report.Upstreams {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for j, checkup := range checkups {
				if checkup.upstream == &report.Upstreams[i] {
					x.check(ctx, c, checkup)
					diagnoses[j] = judge(checkup)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &Examination{Diagnoses: diagnoses, Skipped: skipped}, nil
}

// plan says what is to be looked at, in the order of upstreams and models.
func plan(c *config.Config, report *Report, opts *ExamineOptions) (checkups []*checkup, skipped []string, err error) {
	served := report.Served(c)
	if opts.Model != "" {
		s, err := find(c, report, served, opts.Model)
		if err != nil {
			return nil, nil, err
		}
		return []*checkup{checkupOf(s)}, nil, nil
	}
	most := cmp.Or(opts.MaxModels, 20)
	for i := range report.Upstreams {
		u := &report.Upstreams[i]
		known := false
		for _, s := range served {
			switch {
			case s.Upstream != u:
			case !GeneratesText(s.Name) || len(checkups) >= most:
				skipped = append(skipped, s.Name)
				known = true
			default:
				checkups = append(checkups, checkupOf(s))
				known = true
			}
		}
		if !known {
			checkups = append(checkups, &checkup{upstream: u})
		}
	}
	return checkups, skipped, nil
}

func checkupOf(s Served) *checkup {
	return &checkup{upstream: s.Upstream, model: s.Name, there: s.Model, window: s.Window, upTo: s.UpTo}
}

// find returns the model of that name. The only upstream gets every name, also one
// that it does not list.
func find(c *config.Config, report *Report, served []Served, name string) (Served, error) {
	for _, s := range served {
		if s.Name == name {
			return s, nil
		}
	}
	if len(c.Models) == 0 && len(report.Upstreams) == 1 {
		return report.Upstreams[0].served(name, name), nil
	}
	return Served{}, fmt.Errorf("no upstream serves the model %q", name)
}

// check makes the calls of one checkup. It stops at the first that shows that the
// others would fail too, and when ctx ends.
func (x *examiner) check(ctx context.Context, c *config.Config, k *checkup) {
	if k.model == "" {
		k.listed = x.list(ctx, c.Upstreams[k.upstream.Name])
		return
	}
	for _, call := range []struct {
		what   string
		into   **outcome
		q      question
		wanted func() bool
	}{
		{"text", &k.text, askText, func() bool { return true }},
		{"tool calls", &k.tools, askTools, func() bool { return k.text.answered() }},
		{"a tool call", &k.forced, askForced, func() bool { return says(k.tools) && k.tools.goodCalls() == 0 }},
		{"structured output", &k.schema, askSchema, func() bool { return k.text.answered() }},
		{"reasoning", &k.think, askThink, func() bool { return k.text.answered() && !k.text.reasoned }},
	} {
		if !call.wanted() {
			continue
		}
		x.say(k.model, call.what)
		o, err := x.caller.ask(ctx, k.model, call.q)
		if err != nil {
			return // ctx has ended, and whoever ended it is told
		}
		*call.into = o
	}
	x.settleWindow(ctx, c, k)
}

// settleWindow asks Ollama again: now that the model is loaded it can tell.
func (x *examiner) settleWindow(ctx context.Context, c *config.Config, k *checkup) {
	if k.upstream.Engine != ollama || !k.text.answered() {
		return
	}
	p, err := x.prober(c.Upstreams[k.upstream.Name])
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, x.caller.time)
	defer cancel()
	if window := p.loaded(ctx)[k.there]; window > 0 {
		k.window, k.upTo = window, false
	}
}

// list returns the status with which an upstream answers when asked for its models,
// 0 if it does not.
func (x *examiner) list(ctx context.Context, u config.Upstream) int {
	p, err := x.prober(u)
	if err != nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, x.caller.time)
	defer cancel()
	status, _, err := p.do(ctx, http.MethodGet, p.endpoint.Base.JoinPath("models"), nil)
	if err != nil {
		return 0
	}
	return status
}

func (x *examiner) prober(u config.Upstream) (*prober, error) {
	e, err := endpoint(u, x.client)
	return &prober{endpoint: e, client: x.client}, err
}

func (x *examiner) say(model, what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.progress(model, what)
}

// GeneratesText guesses by the name whether a model answers in text.
func GeneratesText(model string) bool {
	model = strings.ToLower(model)
	for _, other := range []string{"embed", "whisper", "tts", "dall-e", "image", "audio", "realtime", "transcribe", "moderation", "rerank", "sora", "babbage", "davinci", "computer-use"} {
		if strings.Contains(model, other) {
			return false
		}
	}
	return true
}
