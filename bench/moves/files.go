package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// files measures a file that goes to the device, from the page cache and from
// the disk when its pages have been dropped, and device memory that becomes a
// new file beside it.
func (b *bench) files(ctx context.Context, m *memory) error {
	const cached, disk, written = "file in page cache h2d", "disk h2d", "file write d2h"
	if b.file == "" {
		for _, name := range []string{cached, disk, written} {
			b.skip(name, errors.New("no --file"))
		}
		return nil
	}
	file, err := os.Open(b.file)
	if err != nil {
		return err
	}
	m.later(file.Close)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	n := min(info.Size(), b.fileBytes)
	to, err := m.device(n)
	if err != nil {
		return err
	}
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	// arrived also leaves the file in the page cache.
	arrived := func() error { return fileArrived(m, to, file, n) }
	reading := func(name string, before func() error) *sample {
		var last transfer.FileReport
		read := func() (seconds float64, err error) {
			if err := before(); err != nil {
				return 0, err
			}
			start := time.Now()
			last, err = engine.ReadFile(ctx, transfer.FileCopy{File: file, Device: to, Bytes: n})
			return time.Since(start).Seconds(), err
		}
		return &sample{
			row: row{Name: name, Unit: "GB/s"},
			check: func() error {
				if err := m.wipe(to, n); err != nil {
					return err
				}
				if _, err := read(); err != nil {
					return err
				}
				return arrived()
			},
			run:    read,
			figure: rate(n),
			finish: func(r *row) { r.Path, r.Notes = pathText(last), last.Notes },
		}
	}
	// Not in turn: what the one leaves in the cache is what the other is about.
	if err := b.inTurn(ctx, []*sample{reading(cached, func() error { return nil })}); err != nil {
		return err
	}
	if err := b.inTurn(ctx, []*sample{reading(disk, func() error { return dropPages(file) })}); err != nil {
		return err
	}
	return b.inTurn(ctx, []*sample{writing(ctx, m, engine, file, to, min(n, b.fileWrite), written)})
}

// writing makes the row of a new file beside source, whose first n bytes it
// takes by way of the device memory at.
func writing(ctx context.Context, m *memory, engine *transfer.Engine, source *os.File, at device.Ptr, n int64, name string) *sample {
	path := source.Name() + ".written"
	m.later(func() error { return removed(path) })
	var last transfer.FileReport
	write := func() (seconds float64, err error) {
		if err := removed(path); err != nil { // and what is not yet on the disk of it
			return 0, err
		}
		start := time.Now()
		last, err = engine.CreateFile(ctx, path, transfer.FileCopy{Device: at, Bytes: n})
		return time.Since(start).Seconds(), err
	}
	return &sample{
		row: row{Name: name, Unit: "GB/s"},
		check: func() error {
			if _, err := engine.ReadFile(ctx, transfer.FileCopy{File: source, Device: at, Bytes: n}); err != nil {
				return err
			}
			if _, err := write(); err != nil {
				return err
			}
			got, err := os.Open(path)
			if err != nil {
				return err
			}
			return errors.Join(fileArrived(m, at, got, n), got.Close())
		},
		run:    write,
		figure: rate(n),
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

// fileArrived compares device memory with the file.
func fileArrived(m *memory, at device.Ptr, file *os.File, n int64) error {
	got, want := make([]byte, min(n, partBytes)), make([]byte, min(n, partBytes))
	for offset := int64(0); offset < n; offset += partBytes {
		size := min(n-offset, partBytes)
		if err := m.download(got[:size], at.Add(offset)); err != nil {
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
			parts = append(parts, way.name+" "+humanize.IBytes(uint64(way.bytes)))
		}
	}
	return strings.Join(parts, ", ")
}
