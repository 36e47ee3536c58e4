package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
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

// A range that a file does not have, or that cannot be written, is found before
// anything is copied.
func TestFileRangesAreCheckedFirst(t *testing.T) {
	const n = 100_000
	f := open(t)
	e := f.Engine(transfer.Options{Copiers: 2, FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	file := f.NewFile(t.TempDir(), unique(n, 1))
	closed := f.NewFile(t.TempDir(), unique(n, 1))
	f.OK(closed.Close())
	for _, c := range []struct {
		name string
		p    pipeline.Pipeline
		want error
	}{
		{"too short", pipeline.Pipeline{In: pipeline.FileRange{File: file, Offset: 1, Bytes: n}}, io.ErrUnexpectedEOF},
		{"no file", pipeline.Pipeline{In: pipeline.FileRange{Bytes: n}}, device.ErrArgument},
		{"closed", pipeline.Pipeline{In: pipeline.FileRange{File: closed, Bytes: n}}, os.ErrClosed},
		{"no such path", pipeline.Pipeline{In: pipeline.FileRange{File: file, Bytes: n, Path: "guess"}}, device.ErrArgument},
		{"no file to write", pipeline.Pipeline{In: pipeline.Bytes(make([]byte, n)), Out: pipeline.FileRange{Bytes: n}}, device.ErrArgument},
		{"mapped to write", pipeline.Pipeline{In: pipeline.Bytes(make([]byte, n)), Out: pipeline.FileRange{File: file, Bytes: n, Path: transfer.FileMapped}}, device.ErrArgument},
		{"a folder to make", pipeline.Pipeline{In: pipeline.Bytes(make([]byte, n)), Out: pipeline.NewFile{Path: t.TempDir(), Bytes: n}}, device.ErrArgument},
	} {
		c.p.ChunkBytes = 10_000
		c.p.Compute = func(device.Stream, pipeline.Chunk) error {
			t.Errorf("%s: a chunk was computed on", c.name)
			return nil
		}
		_, err := f.run(ctx, e, c.p)
		f.Fails(c.name, err, c.want)
	}
}

// A new file is there when the run is through, and only then.
func TestNewFile(t *testing.T) {
	const n = 200_000
	f := open(t)
	e := f.Engine(transfer.Options{Copiers: 2, FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	in := unique(n, 3)
	p := pipeline.Pipeline{In: pipeline.Bytes(in), Out: pipeline.NewFile{Path: path, Bytes: n}, ChunkBytes: 20_000,
		Compute: func(s device.Stream, c pipeline.Chunk) error { return s.CopyD2D(c.Out, c.In, c.InBytes) }}
	holds := func(what string, want []byte) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		f.OK(err)
		if want == nil && len(entries) != 0 || want != nil && len(entries) != 1 {
			t.Errorf("%s: in the directory are %v", what, entries)
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, want) {
			t.Errorf("%s: wrong content, %d bytes", what, len(got))
		}
	}
	broken := errors.New("broken on purpose")
	fails := p
	fails.Compute = func(s device.Stream, c pipeline.Chunk) error {
		if c.Index == 5 {
			return broken
		}
		return nil
	}
	_, err := f.run(ctx, e, fails)
	f.Fails("Run", err, broken)
	holds("a run that failed", nil)

	f.OK(os.WriteFile(path, []byte("before"), 0o600))
	_, err = f.run(ctx, e, fails)
	f.Fails("Run", err, broken)
	holds("a run that failed", []byte("before"))
	panics := p
	panics.Progress = func(int64, int64) { panic(broken) }
	func() {
		defer func() { _ = recover() }()
		_, _ = pipeline.Run(ctx, e, panics)
	}()
	holds("a panic", []byte("before"))

	for _, sync := range []bool{false, true} {
		p.Out = pipeline.NewFile{Path: path, Bytes: n, Sync: sync}
		_, err = f.run(ctx, e, p)
		f.OK(err)
		holds("a run", in)
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("the new file has %v, the old one had 0600 (%v)", info.Mode(), err)
		}
	}
	p.In, p.Out = pipeline.Bytes(nil), pipeline.NewFile{Path: path}
	_, err = f.run(ctx, e, p)
	f.OK(err)
	holds("an empty run", []byte{})
	f.Fails("WriteFrom", pipeline.NewFile{}.WriteFrom(ctx, e, 0, 0, 0, nil), device.ErrArgument)
}
