package fakeupstream

// A Fault is what goes wrong with an answer. The zero value is nothing.
type Fault struct {
	Kind Kind
	// After is the number of body bytes sent before Kind strikes. A body that
	// is shorter is sent whole and ends well.
	After int
	// Chunk, if positive, is the most bytes per write; each is flushed.
	Chunk int
}

// Kind says how an answer ends early.
type Kind int

// The ways to end early. The First kinds strike before the headers and take no
// notice of Fault.After.
const (
	None       Kind = iota
	Cut             // the connection closes in the middle of the body
	CleanEOF        // the body ends there, as if it were complete
	Stall           // nothing more until the client leaves
	CutFirst        // the connection closes without an answer
	StallFirst      // no headers until the client leaves
)
