package pgstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/antiphon-dev/antiphon/store"
)

// Conditions of PostgreSQL that are told apart.
const (
	uniqueViolation = "23505"
	checkViolation  = "23514" // also: there is no partition for a row
	readOnly        = "25006" // it has become a standby
	serialization   = "40001"
	deadlock        = "40P01"
	diskFull        = "53100"
	undefinedTable  = "42P01"
	lockTimeout     = "55P03"
)

// sqlState is the condition that PostgreSQL reported, "" for other errors.
func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

var errStandby = errors.New("it has become a standby")

// contractual reports whether an error is one that callers expect: the database
// has answered.
func contractual(err error) bool {
	for _, known := range []error{store.ErrNotFound, store.ErrFenced, store.ErrLinkGone, store.ErrTooLong} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// unavailable reports whether an error says that the database could not be asked
// or gave up, rather than that the question was wrong.
func unavailable(err error) bool {
	switch code := sqlState(err); {
	case code == readOnly, code == serialization, code == deadlock, code == lockTimeout:
		return true
	case len(code) == 5:
		switch code[:2] {
		case "08", "53", "57", "58": // connection, resources, operator or time-out, system
			return true
		}
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || broken(err)
}

// broken reports whether an error says that a connection is gone, or of no use.
func broken(err error) bool {
	if code := sqlState(err); code != "" {
		return code == readOnly || strings.HasPrefix(code, "57P") // shutting down or starting
	}
	_, isNet := errors.AsType[net.Error](err)
	_, isConnect := errors.AsType[*pgconn.ConnectError](err)
	return isNet || isConnect || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, errStandby) || pgconn.SafeToRetry(err)
}
