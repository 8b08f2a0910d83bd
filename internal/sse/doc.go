// Package sse reads and writes server-sent events as the WHATWG HTML standard
// frames them (section 9.2, "Server-sent events"). It knows nothing about what
// the events mean: [Read] turns bytes into events, [Writer] turns events into
// bytes, and both keep their memory bounded whatever the other side sends.
//
// It is not an EventSource: there is no connecting and no reconnecting, and
// text is passed on as the bytes that were sent, without replacing invalid
// UTF-8.
package sse
