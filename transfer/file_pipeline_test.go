package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// A pipeline from a file to a file, with memory for a few chunks.
func TestFilePipeline(t *testing.T) {
	const n = 600_000
	f := open(t)
	want := unique(n, 1)
	in := f.newFile(t.TempDir(), append([]byte("head"), want...))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	f.ok(err)
	defer out.Close()
	e := f.engine(transfer.Options{Copiers: 2, FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	for _, path := range []transfer.FilePath{transfer.FileAuto, transfer.FileMapped} {
		f.ok(out.Truncate(0))
		_, err = e.Run(ctx, transfer.Pipeline{
			In:  transfer.FileRange{File: in, Offset: 4, Bytes: n, Path: path},
			Out: transfer.FileRange{File: out, Offset: 3, Bytes: n}, ItemBytes: 1000, ChunkBytes: 50_000,
			Compute: func(s device.Stream, c transfer.Chunk) error { return s.CopyD2D(c.Out, c.In, c.InBytes) },
		})
		f.ok(err)
		if got, err := os.ReadFile(out.Name()); err != nil || !bytes.Equal(got, append(make([]byte, 3), want...)) {
			t.Errorf("path %q: wrong content, %v", path, err)
		}
		evict(t, in)
	}
	// A file that is too short, and a run that ends early.
	p := transfer.Pipeline{
		In: transfer.FileRange{File: in, Offset: 5, Bytes: n}, ItemBytes: 1000, ChunkBytes: 50_000,
		Compute: func(device.Stream, transfer.Chunk) error { return nil },
	}
	_, err = e.Run(ctx, p)
	f.fails("short", err, io.ErrUnexpectedEOF)
	p.In = transfer.FileRange{File: in, Bytes: n}
	ended, cancel := context.WithCancel(ctx)
	p.Progress = func(int64, int64) { cancel() }
	p.Compute = func(device.Stream, transfer.Chunk) error { return nil }
	if _, err = e.Run(ended, p); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
