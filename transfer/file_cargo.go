package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

var errShort = io.ErrUnexpectedEOF

// routeFile chooses the way of a checked copy and takes it.
func (e *Engine) routeFile(ctx context.Context, c *FileCopy, write bool, r *FileReport) (err error) {
	path := directio.Auto
	switch c.Path {
	case FileCuFile:
		return e.cuFile(ctx, c, write, r)
	case FileMapped:
		return e.readMapped(ctx, c, r)
	case FileCached:
		path = directio.Cached
	case FileDirect:
		path = directio.Direct
	}
	if c.Path == FileAuto && write && c.Sync {
		path = directio.Direct
	}
	f, err := directio.Open(c.File, directio.Options{Path: path, Write: write})
	if errors.Is(err, errors.ErrUnsupported) && c.Path == FileAuto {
		r.note(err)
		f, err = directio.Open(c.File, directio.Options{Write: write})
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("path %q: %w: %w", c.Path, device.ErrNotSupported, err)
	}
	if err != nil {
		return err
	}
	defer func() { // also when Progress panics
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	cached := !write && f.Resident(c.Offset, c.Bytes)
	if e.can.files != nil && c.Path == FileAuto && !cached {
		err := e.can.files.MovesStraight(c.File)
		if err == nil {
			if err = e.cuFile(ctx, c, write, r); !errors.Is(err, errNotMoved) {
				return err
			}
		}
		r.note(err)
	}
	if e.can.inGo && e.dev.Info().Integrated && cached && c.Path == FileAuto {
		// One copy, in Go, where a page that is gone is an error. Elsewhere
		// it would kill the process.
		return e.readMapped(ctx, c, r)
	}
	err = e.stageFile(ctx, &fileCargo{file: f, copy: c, toFile: write}, cached)
	r.CachedBytes, r.DirectBytes = f.Counts()
	r.Notes = append(r.Notes, f.Notes()...)
	return err
}

// stageFile moves a file through pinned slots: with the copiers what is read
// at the speed of memory, with the file workers what is not.
func (e *Engine) stageFile(ctx context.Context, cargo *fileCargo, cached bool) error {
	crew := &e.files
	if cached && !e.plain.Load() {
		crew = &e.stager
	}
	err := crew.file(ctx, cargo)
	if crew == &e.stager && errors.Is(err, device.ErrPinLimit) {
		e.plain.Store(true)
		err = e.files.file(ctx, cargo)
	}
	return err
}

func (s *stager) file(ctx context.Context, cargo *fileCargo) error {
	c, slot := cargo.copy, s.options.SlotBytes
	p := choice{copiers: s.options.Copiers}.plan(c.Bytes, slot)
	if s.pageable { // disks like large requests
		p.least = min(pagemem.RoundUp(max(c.Bytes/int64(p.copiers), p.least)), slot)
	}
	t := tasks.Get().(*task)
	t.cargo, t.total, t.phase, t.progress = cargo, c.Bytes, c.Offset%cutAlign, c.Progress
	return s.move(ctx, t, p)
}

// fileCargo is a part of a file.
type fileCargo struct {
	file   *directio.File
	copy   *FileCopy
	toFile bool
}

func (f *fileCargo) load(slot []byte, offset, n int64) ([]byte, error) {
	if f.toFile {
		return slot[:n], nil
	}
	return f.file.Read(slot, f.copy.Offset+offset, n)
}

func (f *fileCargo) queue(s device.Stream, staged []byte, offset int64) error {
	if f.toFile {
		return s.CopyD2H(staged, f.copy.Device.Add(offset))
	}
	return s.CopyH2D(f.copy.Device.Add(offset), staged)
}

func (f *fileCargo) store(staged []byte, offset int64) error {
	if !f.toFile {
		return nil
	}
	return f.file.Write(staged, f.copy.Offset+offset)
}

var _ cargo = (*fileCargo)(nil)
