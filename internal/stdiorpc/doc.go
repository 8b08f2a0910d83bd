// Package stdiorpc speaks JSON-RPC with a child process over its standard input
// and output, one message to a line. Agents such as the Codex app-server are
// driven like that.
//
// Both sides may call each other; their ids are separate. A [Conn] is the
// connection: [Start] begins one with a process, [New] with anything else that
// carries bytes both ways. What the process writes is hostile: lines are bounded
// before they are parsed, and a process that ends, stalls or babbles ends the
// connection, with every call that waits on it, and never more than that.
//
// The package knows nothing of what is said: methods and parameters are the
// caller's.
package stdiorpc
