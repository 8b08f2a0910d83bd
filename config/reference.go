package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxReferencedBytes is the size of the largest file that ${file:/path} reads.
const MaxReferencedBytes = 64 << 10

// references resolve what stands between ${ and }.
type references struct {
	lookup   func(name string) (string, bool)
	readFile func(path string) ([]byte, error)
}

// expand replaces each ${NAME} in s by the variable of that name, and each
// ${file:/path} by what is in the file, once: what they hold is not looked at
// again. $${ stands for ${ itself, and any other $ for itself. A variable that is
// not set, or empty, is an error: an empty credential or address would fail later
// and say less.
func (r references) expand(s string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			return b.String() + s, nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal + "${")
			s = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ has no closing brace; write ${NAME}, or $${ for the characters themselves")
		}
		value, err := r.resolve(name)
		if err != nil {
			return "", err
		}
		b.WriteString(before + value)
		s = after
	}
}

// resolve returns what a reference stands for.
func (r references) resolve(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		return r.contents(path)
	}
	if !isVariable(name) {
		return "", fmt.Errorf("${%s} is not a reference; write ${NAME} for a variable of the environment, ${file:/path} for a file, or $${ for the characters themselves", name)
	}
	value, _ := r.lookup(name)
	if value == "" {
		return "", fmt.Errorf("the environment variable %s is not set; set it before the start", name)
	}
	return value, nil
}

// contents returns what is in a file, without the line break that editors put at
// its end. No error quotes it: it is likely a secret.
func (r references) contents(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("the file %q has no absolute path; write it from the root, such as ${file:/run/secrets/key}", path)
	}
	data, err := r.readFile(path)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // the path is said already
		}
		return "", fmt.Errorf("the file %s cannot be read: %w; check the path and who may read it", path, err)
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", fmt.Errorf("the file %s is empty; write the value into it", path)
	}
	return text, nil
}

// readReferenced reads a regular file of bounded size: opening a pipe would wait
// for somebody to write.
func readReferenced(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxReferencedBytes+1))
	if err == nil && len(data) > MaxReferencedBytes {
		err = fmt.Errorf("it is larger than %d bytes", MaxReferencedBytes)
	}
	return data, err
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
