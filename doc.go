// Package antiphon embeds the Antiphon gateway in a Go program: one Responses
// API in front of every model.
//
// Clients speak the OpenAI Responses API, as the Open Responses specification
// describes it, to the gateway's [net/http.Handler]. Behind it stand drivers
// for the protocols that upstreams speak (package upstream), a store for what
// must be remembered (package store) and tools that the gateway itself may run
// (package tool).
//
// This package knows those contracts only. It names no driver, no store and no
// tool, so a program links nothing that it does not hand over. Package standard
// builds the usual gateway from a configuration file; the command antiphon does
// no more than that.
package antiphon
