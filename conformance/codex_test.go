//go:build unix

package conformance_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// knownCodexFailures are scenarios that do not pass yet, as upstream/model/scenario,
// with the reason. The list only shrinks: one that passes must be struck off.
var knownCodexFailures = map[string]string{}

// codexUpstreams are what the gateway stands in front of.
var codexUpstreams = []string{"native", "chat"}

// TestCodex runs the Codex CLI, as its users install it, through a gateway over
// a native upstream and over Chat Completions (R62, R63). Over a native one every
// body must arrive as Codex sent it.
func TestCodex(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: Codex needs npm, a large download and a minute")
	}
	t.Parallel()
	lab := newCodexLab(t)
	report := &codexReport{}
	t.Cleanup(func() { report.publish(t) })
	for _, upstream := range codexUpstreams {
		for _, surface := range codexSurfaces {
			for _, scenario := range codexScenarios {
				if !scenario.runs(upstream, surface) {
					continue
				}
				name := scenario.key(upstream, surface)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					stage := newCodexStage(t, lab, upstream, surface, max(scenario.gateways, 1))
					err := scenario.run(stage)
					if err == nil && upstream == "native" {
						err = stage.compareRequests(compareBodies)
					}
					report.addScenario(name, err == nil)
					judge(t, err, knownCodexFailures[name])
				})
			}
		}
		for _, failure := range codexFailures {
			t.Run(upstream+"/failure/"+failure.name, func(t *testing.T) {
				t.Parallel()
				failure.run(t, lab, upstream, report)
			})
		}
	}
}

// runs reports whether the scenario makes sense over an upstream and for the
// tools of a model.
func (s *codexScenario) runs(upstream string, surface codexSurface) bool {
	return slices.Contains(s.on, surface) && (upstream == "native" || !s.native)
}

func (s *codexScenario) key(upstream string, surface codexSurface) string {
	return upstream + "/" + surface.model + "/" + s.name
}

// judge fails the test for an error that is not known and for a known one that
// is gone.
func judge(t *testing.T, err error, known string) {
	t.Helper()
	switch {
	case err != nil && known != "":
		t.Skipf("known: %s: %v", known, err)
	case err != nil:
		t.Error(err)
	case known != "":
		t.Errorf("passes, though it is on the list of known failures: %s", known)
	}
}

// An entry that names no scenario would stay on the list for ever.
func TestKnownCodexFailuresExist(t *testing.T) {
	t.Parallel()
	keys := map[string]bool{}
	for _, upstream := range codexUpstreams {
		for _, surface := range codexSurfaces {
			for _, scenario := range codexScenarios {
				if scenario.runs(upstream, surface) {
					keys[scenario.key(upstream, surface)] = true
				}
			}
		}
	}
	for key, reason := range knownCodexFailures {
		if !keys[key] || reason == "" {
			t.Errorf("known failure %q (%s): no such scenario, or no reason", key, reason)
		}
	}
}

// As in clients/: Codex comes from whichever registry npm is configured for.
func TestCodexLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("codex/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error(`codex/package-lock.json has "resolved" addresses; run npm in codex/, where .npmrc leaves them out`)
	}
}
