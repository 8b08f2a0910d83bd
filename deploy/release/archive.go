package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A file of an archive.
type file struct {
	name string
	data []byte
	mode fs.FileMode
}

// archive writes the files below a directory called base, as a platform is used to:
// zip on Windows, tar.gz elsewhere. It returns the archive's name.
func (r *release) archive(p platform, base string, files []file) (string, error) {
	pack, name := r.tarball, base+".tar.gz"
	if p.os == "windows" {
		pack, name = r.zipped, base+".zip"
	}
	var b bytes.Buffer
	if err := pack(&b, base, files); err != nil {
		return "", err
	}
	return name, os.WriteFile(filepath.Join(r.out, name), b.Bytes(), 0o644)
}

func (r *release) tarball(b *bytes.Buffer, base string, files []file) error {
	zw := gzip.NewWriter(b)
	tw := tar.NewWriter(zw)
	for _, f := range files {
		h := &tar.Header{Name: base + "/" + f.name, Size: int64(len(f.data)), Mode: int64(f.mode), ModTime: r.time, Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.data); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return zw.Close()
}

func (r *release) zipped(b *bytes.Buffer, base string, files []file) error {
	zw := zip.NewWriter(b)
	for _, f := range files {
		h := &zip.FileHeader{Name: base + "/" + f.name, Method: zip.Deflate, Modified: r.time.UTC()}
		h.SetMode(f.mode)
		w, err := zw.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return zw.Close()
}

// checksums writes the SHA-256 of the named files, in the form that sha256sum -c
// reads.
func checksums(dir string, names []string) error {
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), name)
	}
	return os.WriteFile(filepath.Join(dir, "checksums.txt"), b.Bytes(), 0o644)
}
