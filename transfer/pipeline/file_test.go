package pipeline_test

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
	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// A pipeline from a file to a file, with memory for a few chunks.
func TestFilePipeline(t *testing.T) {
	const n = 600_000
	f := open(t)
	want := unique(n, 1)
	in := f.NewFile(t.TempDir(), append([]byte("head"), want...))
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	f.OK(err)
	defer out.Close()
	e := f.Engine(transfer.Options{Copiers: 2, FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	for _, path := range []transfer.FilePath{transfer.FileAuto, transfer.FileMapped} {
		f.OK(out.Truncate(0))
		_, err = pipeline.Run(ctx, e, pipeline.Pipeline{
			In:  pipeline.FileRange{File: in, Offset: 4, Bytes: n, Path: path},
			Out: pipeline.FileRange{File: out, Offset: 3, Bytes: n}, ItemBytes: 1000, ChunkBytes: 50_000,
			Compute: func(s device.Stream, c pipeline.Chunk) error { return s.CopyD2D(c.Out, c.In, c.InBytes) },
		})
		f.OK(err)
		if got, err := os.ReadFile(out.Name()); err != nil || !bytes.Equal(got, append(make([]byte, 3), want...)) {
			t.Errorf("path %q: wrong content, %v", path, err)
		}
		transfertest.Evict(t, in)
	}
	// A file that is too short, and a run that ends early.
	p := pipeline.Pipeline{
		In: pipeline.FileRange{File: in, Offset: 5, Bytes: n}, ItemBytes: 1000, ChunkBytes: 50_000,
		Compute: func(device.Stream, pipeline.Chunk) error { return nil },
	}
	_, err = pipeline.Run(ctx, e, p)
	f.Fails("short", err, io.ErrUnexpectedEOF)
	p.In = pipeline.FileRange{File: in, Bytes: n}
	ended, cancel := context.WithCancel(ctx)
	p.Progress = func(int64, int64) { cancel() }
	p.Compute = func(device.Stream, pipeline.Chunk) error { return nil }
	if _, err = pipeline.Run(ended, e, p); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
