//go:build !unix

package codex

import "io"

// lockHome does nothing: there is no lock here that ends with a process.
func lockHome(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// lockAbandoned never finds a home whose gateway is known to be gone.
func lockAbandoned(string) io.Closer { return nil }
