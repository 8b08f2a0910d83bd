package main

import (
	"io"
	"log/slog"
	"os"
)

// Values of --log.
const (
	logText = "text"
	logJSON = "json"
	logOff  = "off"
)

// logger returns the logger that --log asks for: by default text for people and
// JSON for machines.
func (p *program) logger(format string) (*slog.Logger, error) {
	if format == "" {
		format = logJSON
		if isTerminal(p.stderr) {
			format = logText
		}
	}
	switch format {
	case logText:
		return slog.New(slog.NewTextHandler(p.stderr, nil)), nil
	case logJSON:
		return slog.New(slog.NewJSONHandler(p.stderr, nil)), nil
	case logOff:
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, usagef("--log: %q is not a format; use text, json or off", format)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
