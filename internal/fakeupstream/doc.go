// Package fakeupstream plays model providers over real HTTP. They speak Chat
// Completions and Responses exactly as the wire has them, and misbehave on
// command: connections cut mid-frame, streams that stall, answers that trickle
// in byte by byte.
//
// A [Server] is an [http.Handler] that records every request and answers it
// with a [Reply]. The replies come from a function: a test's own, a [Script],
// or a [Model], which is a small deterministic mind that reads the request and
// answers in the protocol it was asked in.
//
//	srv := fakeupstream.NewServer(fakeupstream.Script(
//		fakeupstream.JSON(429, `{"error":{"message":"slow down"}}`),
//		fakeupstream.SSE("data: [DONE]\n\n"),
//	))
//	web := httptest.NewServer(srv)
//	defer web.Close()
//	defer srv.Close() // first: a stalled exchange would keep web.Close waiting
//
// The package is for tests, benchmarks and the fakeupstream command. It checks
// no credentials, and its model remembers nothing between requests.
package fakeupstream
