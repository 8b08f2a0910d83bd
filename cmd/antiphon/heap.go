package main

import "runtime"

// heapFloor is how much garbage may gather before it is collected, however little
// is in use. Without it the collector starts at 4 MiB, which a gateway that has
// little to remember fills a hundred times a second under load. Memory that is
// in use counts as ever: from some hundred MiB on the floor makes no difference.
const heapFloor = 32 << 20

// raiseHeapFloor makes the collector wait for the floor until the returned function
// is called, unless GOGC says when to collect. It takes addresses and no memory:
// the pages are never touched, but the collector counts them as in use.
func (p *program) raiseHeapFloor() (lower func()) {
	if _, said := p.lookupEnv("GOGC"); said {
		return func() {}
	}
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
