// Package promtext reads metrics in Prometheus's text format, as the gateway's own
// admin address serves them. It is strict and bounded: what it does not understand
// is an error that names the line, never a sample that is left out. It keeps no
// timestamps and reads no exemplars, which the gateway does not write.
package promtext

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxBytes and MaxSamples bound what [Read] takes.
	MaxBytes   = 32 << 20
	MaxSamples = 500_000

	maxLine   = 64 << 10
	maxLabels = 64
)

// ErrTooLarge: there is more than [Read] takes.
var ErrTooLarge = errors.New("promtext: the metrics are too large")

// Metrics are what one scrape said.
type Metrics struct {
	// Types are the types of families, such as counter, by their names.
	Types map[string]string
	// Samples are in the order in which they came.
	Samples []Sample
}

// A Sample is one number of one series.
type Sample struct {
	// Name is that of the series: of a histogram it ends in _bucket, _sum or _count.
	Name   string
	Labels map[string]string // nil if there are none
	Value  float64
}

// String is the series, as the format writes it with its labels in order.
func (s *Sample) String() string {
	if len(s.Labels) == 0 {
		return s.Name
	}
	var b strings.Builder
	b.WriteString(s.Name)
	sep := byte('{')
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		b.WriteByte(sep)
		sep = ','
		fmt.Fprintf(&b, `%s="%s"`, name, escaper.Replace(s.Labels[name]))
	}
	b.WriteByte('}')
	return b.String()
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// Read reads metrics to the end of r.
func Read(r io.Reader) (*Metrics, error) {
	limited := &io.LimitedReader{R: r, N: MaxBytes + 1}
	lines := bufio.NewReaderSize(limited, maxLine)
	m := &Metrics{Types: map[string]string{}}
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("promtext: line %d is longer than %d bytes", n, maxLine)
		case limited.N == 0 || len(m.Samples) >= MaxSamples:
			return nil, ErrTooLarge
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case errors.Is(err, io.EOF) && len(line) == 0:
			return m, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("promtext: line %d: %w", n, io.ErrUnexpectedEOF) // cut off
		}
		if err := m.add(strings.TrimSuffix(string(line), "\n")); err != nil {
			return nil, fmt.Errorf("promtext: line %d: %w", n, err)
		}
	}
}

// add takes a line.
func (m *Metrics) add(line string) error {
	if line == "" {
		return nil
	}
	if comment, ok := strings.CutPrefix(line, "#"); ok {
		if fields := strings.Fields(comment); len(fields) == 3 && fields[0] == "TYPE" {
			m.Types[fields[1]] = fields[2]
		}
		return nil
	}
	var s Sample
	rest, err := s.name(line)
	if err == nil && strings.HasPrefix(rest, "{") {
		rest, err = s.labels(rest[1:])
	}
	if err != nil {
		return err
	}
	number, isNumber := strings.CutPrefix(rest, " ")
	if s.Value, err = strconv.ParseFloat(number, 64); err != nil || !isNumber {
		return fmt.Errorf("%s has no number", s.Name)
	}
	m.Samples = append(m.Samples, s)
	return nil
}

func (s *Sample) name(line string) (rest string, err error) {
	end := nameEnd(line, true)
	if end == 0 {
		return "", errors.New("there is no name")
	}
	s.Name = line[:end]
	return line[end:], nil
}

// nameEnd is where a name ends that s begins with, 0 if there is none. Names of
// metrics may have colons, those of labels not.
func nameEnd(s string, colon bool) int {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' && colon
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

// labels reads labels behind their opening brace.
func (s *Sample) labels(line string) (rest string, err error) {
	s.Labels = map[string]string{}
	for {
		if rest, ok := strings.CutPrefix(line, "}"); ok {
			return rest, nil
		}
		end := nameEnd(line, false)
		if end == 0 || !strings.HasPrefix(line[end:], `="`) {
			return "", fmt.Errorf("the labels of %s are not understood", s.Name)
		}
		name := line[:end]
		value, n, ok := unescape(line[end+2:])
		if _, twice := s.Labels[name]; !ok || twice || len(s.Labels) == maxLabels {
			return "", fmt.Errorf("the label %s of %s is not understood", name, s.Name)
		}
		s.Labels[name] = value
		line = line[end+2+n:]
		if after, ok := strings.CutPrefix(line, ","); ok {
			line = after
		} else if !strings.HasPrefix(line, "}") {
			return "", fmt.Errorf("the labels of %s do not end", s.Name)
		}
	}
}

// unescape returns the value that s begins with, up to the quote that ends it, and
// the length of both.
func unescape(s string) (value string, n int, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return b.String(), i + 1, true
		case '\\':
			i++
			if i == len(s) {
				return "", 0, false
			}
			switch s[i] {
			case '\\', '"':
				b.WriteByte(s[i])
			case 'n':
				b.WriteByte('\n')
			default:
				return "", 0, false
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, false
}
