// Package openaigo holds the OpenAI SDK for Go against a running server. It has
// tests only, and is a module of its own, so that the SDK is no dependency of
// the gateway.
//
// The server is given by ANTIPHON_BASE_URL, ANTIPHON_MODEL, ANTIPHON_API_KEY and
// ANTIPHON_STORE, as for the other client programs. Behind it stands the small
// model of cmd/fakeupstream, so the answers are known word for word.
package openaigo
