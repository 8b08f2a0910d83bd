// Package conformance proves the gateway from outside: real client libraries,
// as their users install them, against the real binary on a real socket. It has
// tests only.
//
// The clients live in clients/, one program each, and are told by environment
// variables where the server is, so that they can be run against any server
// whose model behaves like that of cmd/fakeupstream; see clients/README.md.
//
// TestCodex runs the real Codex CLI of codex/ in every shape of its tools, and
// TestCoverageDoc makes docs/coverage.md from what the tree proves.
package conformance
