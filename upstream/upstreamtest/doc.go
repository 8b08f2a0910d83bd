// Package upstreamtest is the suite that every driver passes, those of other
// modules too.
//
// It has two halves. [Goldens] replays files that hold a client's request, what
// the upstream must receive, what it answers and the events that must come of
// it, and then replays each answer broken wherever a connection can break. [Run]
// holds a driver to the contract of package upstream over HTTP: cancelling,
// closing, failures, silence, and nothing left behind.
//
// A driver's own test is then small:
//
//	func newDriver(e upstream.Endpoint) upstream.Driver { return native.New(e, nil) }
//
//	func TestGoldens(t *testing.T)     { upstreamtest.Goldens(t, "testdata", newDriver) }
//	func TestConformance(t *testing.T) { upstreamtest.Run(t, upstreamtest.Harness{New: newDriver, …}) }
//
// The package defines two flags for [Goldens]: -update rewrites the expected
// sections of the files instead of comparing them, -every-byte breaks long
// answers at every byte instead of every telling one.
package upstreamtest
