package server

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// A shape is what the access log says of a request: kinds and counts, never
// content.
type shape struct {
	model   string
	stream  bool
	relayed bool // it passed as it came, so that nothing else is known
	items   map[string]int
	tools   map[string]int
}

func shapeOf(r *responses.Request) shape {
	s := shape{model: r.Model, stream: r.WantsStream(), items: map[string]int{}, tools: map[string]int{}}
	for _, it := range r.Input.Items {
		s.items[it.Type()]++
	}
	for _, t := range r.Tools {
		s.tools[t.Type()]++
	}
	return s
}

func (s shape) attrs() []slog.Attr {
	if s.relayed {
		return []slog.Attr{slog.String("model", short(s.model)), slog.Bool("stream", s.stream), slog.Bool("relayed", true)}
	}
	if s.items == nil {
		return nil
	}
	return []slog.Attr{
		slog.String("model", short(s.model)),
		slog.Bool("stream", s.stream),
		slog.String("input", counts(s.items)),
		slog.String("tools", counts(s.tools)),
	}
}

// short is a name that a client made up, as far as it helps to know it.
func short(name string) string { return fmt.Sprintf("%.100s", name) }

// namesOf writes the names of losses, and is short whatever somebody made up.
func namesOf(losses []responses.Loss) string {
	const most, longest = 16, 60
	var names []string
	for _, l := range losses {
		if len(names) == most {
			names = append(names, "…")
			break
		}
		names = append(names, fmt.Sprintf("%.*s", longest, l.Param))
	}
	return strings.Join(names, ",")
}

// counts writes message:3,function_call:1 and is short whatever a client made
// up: type words come from outside.
func counts(m map[string]int) string {
	const most, longest = 8, 40
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if len(parts) == most {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%.*s:%d", longest, k, m[k]))
	}
	return strings.Join(parts, ",")
}
