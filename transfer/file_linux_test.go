package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/transfer"
)

// When Progress panics, the descriptors and mappings of the file are given
// back like the rest.
func TestPanicLeavesNoFiles(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	const n = 1 << 20
	path, p := filepath.Join(t.TempDir(), "file"), f.Alloc(n)
	f.OK(os.WriteFile(path, make([]byte, n), 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	f.OK(err)
	defer file.Close()
	open := func() int {
		descriptors, err := os.ReadDir("/proc/self/fd")
		f.OK(err)
		mappings, err := os.ReadFile("/proc/self/maps")
		f.OK(err)
		return len(descriptors) + bytes.Count(mappings, []byte(path))
	}
	for _, way := range []transfer.FilePath{transfer.FileAuto, transfer.FileCached, transfer.FileDirect, transfer.FileMapped} {
		c := transfer.FileCopy{File: file, Device: p, Bytes: n, Path: way}
		if _, err := e.ReadFile(ctx, c); err != nil {
			t.Logf("%q: %v", way, err)
			continue
		}
		before := open()
		c.Progress = func(int64, int64) { panic("now") }
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q: the panic of Progress is lost", way)
				}
			}()
			_, _ = e.ReadFile(ctx, c)
		}()
		if after := open(); after != before {
			t.Errorf("%q: %d descriptors and mappings before, %d after", way, before, after)
		}
	}
}
