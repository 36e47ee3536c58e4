package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
)

// files measures a file that goes from the page cache to the device, and device
// memory that becomes a new file beside it.
func (b *bench) files(ctx context.Context, m *memory) error {
	f, err := b.openFile(m)
	if err != nil {
		return err
	}
	// Not in turn: what the one leaves in the cache is what the other is about.
	if err := b.inTurn(ctx, []*sample{f.reading(ctx, "file in page cache h2d", func() error { return nil })}); err != nil {
		return err
	}
	return b.inTurn(ctx, []*sample{f.writing(ctx, "file write d2h", min(f.bytes, b.fileWrite))})
}

// disk measures a file that goes from the disk to the device. A disk drifts, so
// that the row makes a document of its own, taken in turn with that of plain
// reads.
func (b *bench) disk(ctx context.Context, m *memory) error {
	b.What = "disk"
	b.Repeats = min(b.Repeats, 3)
	f, err := b.openFile(m)
	if err != nil {
		return err
	}
	return b.inTurn(ctx, []*sample{f.reading(ctx, "disk h2d", func() error { return harness.DropPages(f.file) })})
}

// fileRows is a file and the device memory that it is read to.
type fileRows struct {
	m      *memory
	engine *transfer.Engine
	file   *os.File
	at     device.Ptr
	bytes  int64
}

func (b *bench) openFile(m *memory) (*fileRows, error) {
	switch {
	case b.file == "" && b.Only != "": // asked for by name
		return nil, fmt.Errorf("%w: --only %s reads a file: name one with --file", device.ErrArgument, b.Only)
	case b.file == "":
		return nil, fmt.Errorf("%w: no --file", errors.ErrUnsupported)
	}
	f := &fileRows{m: m}
	var err error
	if f.file, err = os.Open(b.file); err != nil {
		return nil, err
	}
	m.Later(f.file.Close)
	info, err := f.file.Stat()
	if err != nil {
		return nil, err
	}
	f.bytes = min(info.Size(), b.fileBytes)
	if f.at, err = m.Alloc(f.bytes); err != nil {
		return nil, err
	}
	f.engine, err = b.engine(m)
	return f, err
}

// reading makes the row of the whole file, which before prepares.
func (f *fileRows) reading(ctx context.Context, name string, before func() error) *sample {
	var last transfer.FileReport
	read := func() (seconds float64, err error) {
		if err := before(); err != nil {
			return 0, err
		}
		start := time.Now()
		last, err = f.engine.ReadFile(ctx, transfer.FileCopy{File: f.file, Device: f.at, Bytes: f.bytes})
		return time.Since(start).Seconds(), err
	}
	return &sample{
		Sample: measure.Sample{
			Row: measure.Row{Name: name, Unit: "GB/s"},
			Check: func() error {
				if err := f.m.wipe(f.at, f.bytes); err != nil {
					return err
				}
				if _, err := read(); err != nil {
					return err
				}
				return f.arrived(f.file, f.bytes) // which leaves the file in the page cache
			},
			Run:    read,
			Figure: rate(f.bytes),
		},
		finish: func(r *row) { r.Path, r.Notes = pathText(last), last.Notes },
	}
}

// writing makes the row of a new file beside f, whose first n bytes it takes by
// way of the device.
func (f *fileRows) writing(ctx context.Context, name string, n int64) *sample {
	path := f.file.Name() + ".written"
	f.m.Later(func() error { return removed(path) })
	var last transfer.FileReport
	write := func() (seconds float64, err error) {
		if err := removed(path); err != nil { // and what is not yet on the disk of it
			return 0, err
		}
		start := time.Now()
		last, err = f.engine.CreateFile(ctx, path, transfer.FileCopy{Device: f.at, Bytes: n})
		return time.Since(start).Seconds(), err
	}
	return &sample{
		Sample: measure.Sample{
			Row: measure.Row{Name: name, Unit: "GB/s"},
			Check: func() error {
				if _, err := f.engine.ReadFile(ctx, transfer.FileCopy{File: f.file, Device: f.at, Bytes: n}); err != nil {
					return err
				}
				if _, err := write(); err != nil {
					return err
				}
				got, err := os.Open(path)
				if err != nil {
					return err
				}
				return errors.Join(f.arrived(got, n), got.Close())
			},
			Run:    write,
			Figure: rate(n),
		},
		finish: func(r *row) { r.Path, r.Notes = pathText(last), last.Notes },
	}
}

// removed removes a file that may not be there.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// arrived compares device memory with n bytes of file.
func (f *fileRows) arrived(file *os.File, n int64) error {
	got, want := make([]byte, min(n, partBytes)), make([]byte, min(n, partBytes))
	for offset := int64(0); offset < n; offset += partBytes {
		size := min(n-offset, partBytes)
		if err := f.m.download(got[:size], f.at.Add(offset)); err != nil {
			return err
		}
		if _, err := file.ReadAt(want[:size], offset); err != nil {
			return err
		}
		if err := same(got[:size], want[:size]); err != nil {
			return fmt.Errorf("from offset %d on: %w", offset, err)
		}
	}
	return nil
}

// pathText says which way the bytes went.
func pathText(r transfer.FileReport) string {
	var parts []string
	for _, way := range []struct {
		name  string
		bytes int64
	}{{"cached", r.CachedBytes}, {"direct", r.DirectBytes}, {"mapped", r.MappedBytes}, {"cufile", r.CuFileBytes}} {
		if way.bytes > 0 {
			parts = append(parts, way.name+" "+units.Bytes(way.bytes))
		}
	}
	return strings.Join(parts, ", ")
}
