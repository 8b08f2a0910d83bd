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

// logger returns the logger that --log and --log-level ask for: by default text for
// people and JSON for machines, without what is for debugging.
func (p *program) logger(format, level string) (*slog.Logger, error) {
	var opts slog.HandlerOptions
	switch level {
	case "", "info":
	case "debug":
		opts.Level = slog.LevelDebug
	case "warn":
		opts.Level = slog.LevelWarn
	case "error":
		opts.Level = slog.LevelError
	default:
		return nil, usagef("--log-level: %q is not a level; use debug, info, warn or error", level)
	}
	if format == "" {
		format = logJSON
		if isTerminal(p.stderr) {
			format = logText
		}
	}
	switch format {
	case logText:
		return slog.New(slog.NewTextHandler(p.stderr, &opts)), nil
	case logJSON:
		return slog.New(slog.NewJSONHandler(p.stderr, &opts)), nil
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
