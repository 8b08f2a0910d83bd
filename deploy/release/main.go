// Command release builds what is published: the gateway for six platforms, each in
// an archive with its man pages and completions, a bill of materials for each, and
// the checksums of all. The same commit gives the same bytes.
//
//	go run ./deploy/release -version v1.2.3 -out dist
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// platforms are what the gateway is built for.
var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

func (p platform) binary() string {
	if p.os == "windows" {
		return "antiphon.exe"
	}
	return "antiphon"
}

// A release is what is being built.
type release struct {
	version string
	out     string
	time    time.Time // of every file in an archive
}

func main() {
	version := flag.String("version", "unknown", "the version that the binary tells")
	out := flag.String("out", "dist", "the directory for the files")
	only := flag.String("only", "", "build for this platform only, such as linux_amd64")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *version, *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, out, only string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	when, err := commitTime(ctx)
	if err != nil {
		return err
	}
	r := &release{version, out, when}
	extras, err := r.extras(ctx)
	if err != nil {
		return err
	}
	var made []string
	for _, p := range platforms {
		if only != "" && only != p.String() {
			continue
		}
		began := time.Now()
		names, err := r.build(ctx, p, extras)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		made = append(made, names...)
		fmt.Printf("%-14s %s in %s\n", p, strings.Join(names, ", "), time.Since(began).Round(time.Second))
	}
	if len(made) == 0 {
		return fmt.Errorf("there is no platform %q", only)
	}
	return checksums(out, made)
}

// commitTime is when what is released was committed.
func commitTime(ctx context.Context) (time.Time, error) {
	out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%cI").Output()
	if err != nil {
		return time.Time{}, fmt.Errorf("git log: %w", err)
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(string(out)))
}

// compile builds the gateway for a platform into dir.
func (r *release) compile(ctx context.Context, p platform, dir string) (string, error) {
	file := filepath.Join(dir, p.binary())
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", file, "./cmd/antiphon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return file, nil
}

// extras returns what lies in every archive beside the binary: the licence, the
// README, the man pages and the completions, which the binary for this machine
// writes.
func (r *release) extras(ctx context.Context) ([]file, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := r.compile(ctx, platform{runtime.GOOS, runtime.GOARCH}, dir)
	if err != nil {
		return nil, err
	}
	man := filepath.Join(dir, "man")
	if err := os.Mkdir(man, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, binary, "manual", man).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("manual: %w\n%s", err, out)
	}
	var files []file
	pages, err := filepath.Glob(filepath.Join(man, "*.1"))
	if err != nil {
		return nil, err
	}
	for _, path := range append([]string{"LICENSE", "README.md"}, pages...) {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		if filepath.Ext(name) == ".1" {
			name = "man/" + name
		}
		files = append(files, file{name, data, 0o644})
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		data, err := exec.CommandContext(ctx, binary, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion %s: %w", shell, err)
		}
		files = append(files, file{"completions/antiphon." + shell, data, 0o644})
	}
	return files, nil
}

// build makes the archive and the bill of materials of a platform, and returns
// their names.
func (r *release) build(ctx context.Context, p platform, extras []file) ([]string, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := r.compile(ctx, p, dir)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("antiphon_%s_%s", strings.TrimPrefix(r.version, "v"), p)
	archive, err := r.archive(p, base, append([]file{{p.binary(), binary, 0o755}}, extras...))
	if err != nil {
		return nil, err
	}
	bill, err := r.bill(path, base)
	if err != nil {
		return nil, err
	}
	return []string{archive, bill}, nil
}
