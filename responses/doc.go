// Package responses is the one model that every other package speaks: the
// requests, items, tools, events and response objects of the OpenAI Responses
// API and the Open Responses specification, and the error type that crosses
// package borders.
//
// It holds four things and no I/O:
//
//   - The model. [Request], [Item], [Part], [Tool], [Event], [Response] and
//     [Error]. Unions are closed interfaces with one struct for each kind we act
//     on and an Unknown struct that carries every other kind unchanged, so that
//     a growing API is never lossy. Unknown members of known kinds survive in an
//     embedded Extra field.
//   - The codec. [DecodeRequest] is the only way a client's bytes become a
//     request: case-sensitive, without duplicate names, bounded in depth and
//     size, and every refusal names the field. [PeekRequest] is as strict, for
//     requests that pass on as they came. [AppendEvent] and [DecodeEvent]
//     are the wire form of events.
//   - The grammar. [Grammar] says why a sequence of events is illegal.
//   - The fold. [Fold] turns a sequence of events into the response object that
//     a client which did not stream receives.
//
// Values are plain data: a value that is not being changed may be shared between
// goroutines.
package responses
