//go:build linux || darwin

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe is written, and stays one.
func TestFeedDigestsIntoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	ok(t, syscall.Mkfifo(pipe, 0o600))
	// For writing too, so that nobody waits for the other side.
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	if r := pinion(t, "feed", makePhotos(t, 5), "--device", "host", "--size", "16", "--batch", "2", "--digests", pipe); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	info, err := os.Stat(pipe)
	ok(t, err)
	if info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe became %v", info.Mode())
	}
	text := make([]byte, 1<<12)
	n, err := f.Read(text)
	ok(t, err)
	if lines := bytes.Count(text[:n], []byte("\n")); lines != 3 {
		t.Errorf("%d lines, want 3: %s", lines, text[:n])
	}
}
