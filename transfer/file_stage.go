package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/transfer/internal/staging"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
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
		path = directio.Auto
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
	part := &filePart{file: f, copy: c, toFile: write, way: wayDirect}
	if cached || path == directio.Cached || write && path == directio.Auto {
		part.way = wayCached
	}
	err = e.stageFile(ctx, part, cached)
	r.CachedBytes, r.DirectBytes = f.Counts()
	r.Notes = append(r.Notes, f.Notes()...)
	return err
}

// stageFile moves a file through pinned slots: by the copiers if the page cache
// has all of it, and otherwise by the file workers.
func (e *Engine) stageFile(ctx context.Context, part *filePart, cached bool) error {
	n, slot := part.copy.Bytes, e.options.SlotBytes
	if cached && !e.plain.Load() {
		part.begin(e)
		err := moveFile(ctx, e.stager, part, staging.PlanOf(linkmodel.Staging{Copiers: e.options.Copiers}, n, slot))
		if !errors.Is(err, device.ErrPinLimit) {
			return err
		}
		if err := e.goPlain(ctx); err != nil {
			return err
		}
	}
	part.begin(e)
	p := staging.PlanOf(linkmodel.Staging{Copiers: e.options.FileWorkers}, n, slot)
	// Disks like large requests.
	p.Least = min(pagemem.RoundUp(max(n/int64(p.Copiers), p.Least)), slot)
	return moveFile(ctx, e.files, part, p)
}

func moveFile(ctx context.Context, s *staging.Stager, part *filePart, p staging.Plan) (err error) {
	c := part.copy
	defer func() { part.traffic.end(ctx, 0, err) }() // the chunks have counted their bytes
	return s.Move(ctx, part, c.Bytes, c.Offset, c.Progress, p)
}

// filePart is a part of a file.
type filePart struct {
	file    *directio.File
	copy    *FileCopy
	toFile  bool
	way     way
	traffic moving // counts its bytes, chunk by chunk
}

func (f *filePart) begin(e *Engine) {
	f.traffic = e.begin(linkDirection(f.toFile), f.way, f.copy.Bytes)
}

func (f *filePart) Load(slot []byte, offset, n int64) ([]byte, error) {
	if f.toFile {
		return slot[:n], nil
	}
	return f.file.Read(slot, f.copy.Offset+offset, n)
}

func (f *filePart) Queue(s device.Stream, staged []byte, offset int64) error {
	if f.toFile {
		return s.CopyD2H(staged, f.copy.Device.Add(offset))
	}
	return s.CopyH2D(f.copy.Device.Add(offset), staged)
}

func (f *filePart) Store(staged []byte, offset int64) error {
	if f.toFile {
		if err := f.file.Write(staged, f.copy.Offset+offset); err != nil {
			return err
		}
	}
	f.traffic.bytes.Add(int64(len(staged)))
	return nil
}

var _ staging.Payload = (*filePart)(nil)
