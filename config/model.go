package config

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Model is what a client's model name stands for: targets, and what is done to
// the requests that they get. One target may be written with Upstream and Model;
// [Parse] makes Targets of them, and sets them to the first of several.
type Model struct {
	// Upstream is the name of the upstream that serves the model.
	Upstream string `yaml:"upstream"`
	// Model is the upstream's name for it; "*" is the part of the client's name
	// that the "*" of a pattern stands for. Left out, it is the client's name.
	Model string `yaml:"model"`
	// Targets are those who serve the model, instead of upstream and model.
	Targets []Target `yaml:"targets"`
	// Defaults are members of the request, set where the client is silent.
	Defaults map[string]jsontext.Value `yaml:"defaults"`
	// Override are members of the request, set whatever the client says.
	Override map[string]jsontext.Value `yaml:"override"`
	// Drop are members of the request that are taken out.
	Drop []string `yaml:"drop"`
	// Info is what clients are told of the model.
	Info ModelInfo `yaml:"info"`
}

// A Target is an upstream's model that can serve requests.
type Target struct {
	// Upstream is the name of the upstream.
	Upstream string `yaml:"upstream"`
	// Model is the upstream's name for the model; "*" is the part of the client's
	// name that the "*" of a pattern stands for. Left out, it is the client's name.
	Model string `yaml:"model"`
	// Weight is the target's share of the requests among those of its priority. One
	// with 0 is used only when the others fail.
	Weight int `yaml:"weight" default:"1" min:"0"`
	// Priority says who is asked first: the lowest number. The next is used when
	// all of the lower ones fail.
	Priority int `yaml:"priority" default:"1" min:"1"`
	// Limits bound what the target gets; beyond them others are asked.
	Limits TargetLimits `yaml:"limits"`
}

// TargetLimits bound the requests to a target. Zero means no limit; a file cannot
// say zero.
type TargetLimits struct {
	// Concurrent is how many requests may run at once. Left out, there is no limit.
	Concurrent int `yaml:"concurrent" min:"1"`
	// RequestsPerMinute is how many requests may begin in a minute. Left out, there
	// is no limit.
	RequestsPerMinute int `yaml:"requests_per_minute" min:"1"`
}

// ModelInfo is what clients are told of a model.
type ModelInfo struct {
	// ContextWindow is how many tokens fit, read and written. Left out, it is what
	// the upstream says.
	ContextWindow int64 `yaml:"context_window" min:"1"`
}

// setShort takes the short form.
func (m *Model) setShort(upstream string) { m.Upstream = upstream }

// Pool returns the model's targets: Targets, or the one that Upstream and Model
// are short for.
func (m Model) Pool() []Target {
	if len(m.Targets) > 0 {
		return m.Targets
	}
	return []Target{{Upstream: m.Upstream, Model: m.Model, Weight: 1, Priority: 1}}
}

// fillIn makes the short and the long form say the same.
func (m *Model) fillIn() {
	m.Targets = m.Pool()
	m.Upstream, m.Model = m.Targets[0].Upstream, m.Targets[0].Model
}

func (m Model) check(p *problems, path, name string, upstreams []string) {
	if err := checkPattern(name); err != nil {
		p.addf(path, "%v", err)
	}
	isPattern := strings.Contains(name, "*")
	weights := 0
	for i, t := range m.Pool() {
		at := path
		if len(m.Targets) > 0 {
			at = fmt.Sprintf("%s[%d]", join(path, "targets"), i)
		}
		t.check(p, at, isPattern, upstreams)
		weights += max(0, t.Weight)
	}
	if weights == 0 {
		p.addf(join(path, "targets"), "all have the weight 0, so that none is asked; give one a weight")
	}
	m.checkMembers(p, path)
	if m.Info.ContextWindow < 0 {
		p.addf(join(join(path, "info"), "context_window"), "%d is less than nothing; leave it out", m.Info.ContextWindow)
	}
}

func (t Target) check(p *problems, path string, ofPattern bool, upstreams []string) {
	switch {
	case t.Upstream == "":
		p.addf(join(path, "upstream"), "is missing; %s", thereIs(upstreams))
	case !slices.Contains(upstreams, t.Upstream):
		p.addf(join(path, "upstream"), "there is no upstream %q; %s", t.Upstream, thereIs(upstreams))
	}
	switch at := join(path, "model"); {
	case !strings.Contains(t.Model, "*"):
	case t.Model != "*":
		p.addf(at, `%q mixes text and "*"; write "*" alone for what the pattern's star stands for, or a whole name`, t.Model)
	case !ofPattern:
		p.addf(at, `"*" stands for a part of a pattern, and the name is none; write the upstream's name for the model`)
	}
	if t.Weight < 0 {
		p.addf(join(path, "weight"), "%d is less than nothing; use 0 or more", t.Weight)
	}
	if t.Priority < 0 {
		p.addf(join(path, "priority"), "%d is less than 1; the lowest number is asked first", t.Priority)
	}
	checkLimit(p, join(join(path, "limits"), "concurrent"), int64(t.Limits.Concurrent))
	checkLimit(p, join(join(path, "limits"), "requests_per_minute"), int64(t.Limits.RequestsPerMinute))
}

// ownMembers are members of a request that the gateway needs as they are: they
// choose the model, hold the question and say how it is answered.
var ownMembers = []string{"input", "model", "stream"}

// checkMembers refuses changes of a request that cannot be meant.
func (m Model) checkMembers(p *problems, path string) {
	member := func(at, name string) {
		switch {
		case name == "":
			p.addf(at, "is not a name for a member of a request; remove it")
		case slices.Contains(ownMembers, name):
			p.addf(at, "%s is not for a configuration to change; remove it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Defaults)) {
		at := join(join(path, "defaults"), name)
		member(at, name)
		if _, also := m.Override[name]; also {
			p.addf(at, "override sets it always; remove one of them")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Override)) {
		member(join(join(path, "override"), name), name)
	}
	for i, name := range m.Drop {
		at := fmt.Sprintf("%s[%d]", join(path, "drop"), i)
		member(at, name)
		_, byDefault := m.Defaults[name]
		_, always := m.Override[name]
		switch {
		case byDefault || always:
			p.addf(at, "%s is also set; to set it always, keep override and remove it here", name)
		case slices.Index(m.Drop, name) < i:
			p.addf(at, "%s is there twice; remove one", name)
		}
	}
}

// checkPattern checks the name of a model, which may end in a star.
func checkPattern(name string) error {
	switch i := strings.IndexByte(name, '*'); {
	case name == "":
		return errors.New("is not a name for a model; clients cannot ask for it")
	case i >= 0 && i < len(name)-1:
		return fmt.Errorf(`%q has a "*" that is not at its end; a pattern is the beginning of a name and one "*"`, name)
	}
	return nil
}

// thereIs says which upstreams there are.
func thereIs(upstreams []string) string {
	if len(upstreams) == 0 {
		return "add it under upstreams"
	}
	const most = 8
	if len(upstreams) > most {
		upstreams = append(upstreams[:most:most], "…")
	}
	return "there is " + strings.Join(upstreams, ", ")
}
