package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/antiphon-dev/antiphon/standard"
)

// TestMain makes the test binary run as antiphon when a script executes that, and
// as something like Codex.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"antiphon": func() {
			p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookupEnv: os.LookupEnv, places: testPlaces()}
			os.Exit(p.run(context.Background(), os.Args[1:]))
		},
		"stubcodex": func() { os.Exit(stubCodex(os.Args[1:])) },
	})
}

// testPlaces returns where scripts say that model servers may be, in TEST_PLACES:
// ENGINE=URL, separated by spaces. The usual ports are never looked at: what is
// there is not the test's.
func testPlaces() []standard.Place {
	places := []standard.Place{}
	for place := range strings.FieldsSeq(os.Getenv("TEST_PLACES")) {
		engine, url, _ := strings.Cut(place, "=")
		places = append(places, standard.Place{Name: strings.ToLower(engine), Engine: engine, URL: url})
	}
	return places
}
