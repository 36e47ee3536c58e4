package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
)

// cuFileBytes is how much of a file one call moves: cuFile cuts it into
// requests of up to 16 MiB itself.
const cuFileBytes = 16 << 20

// errNotMoved: the driver does not take the file; nothing was moved.
var errNotMoved = errors.New("cuFile refused the file")

// cuFile lets the device's driver move c.
func (e *Engine) cuFile(ctx context.Context, c *FileCopy, write bool, r *FileReport) (err error) {
	if e.can.files == nil {
		return fmt.Errorf("path %q: %w: it is for CUDA devices", FileCuFile, device.ErrNotSupported)
	}
	s, err := e.streams.get() // so that Close waits
	if err != nil {
		return err
	}
	defer e.streams.leave(s)
	file := c.File
	if direct, err := directio.OpenDirect(c.File); err == nil { // older versions insist
		defer direct.Close()
		file = direct
	}
	moved, err := e.can.files.MoveFile(file)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotMoved, err)
	}
	defer func() {
		if closeErr := moved.Close(); err == nil {
			err = closeErr
		}
	}()

	t := e.begin(linkDirection(write), wayCuFile, c.Bytes)
	defer func() { t.end(ctx, 0, err) }()
	var next atomic.Int64
	var stop atomic.Bool
	var workers sync.WaitGroup
	parts := make(chan part)
	for range min(int64(e.options.FileWorkers), (c.Bytes-1)/cuFileBytes+1) {
		workers.Go(func() {
			for !stop.Load() {
				at := next.Add(cuFileBytes) - cuFileBytes
				if at >= c.Bytes {
					return
				}
				n := min(cuFileBytes, c.Bytes-at)
				parts <- part{n, movePart(moved, c, at, n, write)}
			}
		})
	}
	go func() {
		workers.Wait()
		close(parts)
	}()
	defer func() { // Progress may panic
		stop.Store(true)
		for range parts {
		}
	}()
	for p := range parts {
		if err == nil {
			err = p.err
		}
		if err == nil && r.CuFileBytes+p.bytes < c.Bytes {
			err = ctx.Err()
		}
		if err != nil {
			stop.Store(true)
			continue
		}
		r.CuFileBytes += p.bytes
		t.bytes.Add(p.bytes)
		if c.Progress != nil {
			c.Progress(r.CuFileBytes, c.Bytes)
		}
	}
	return err
}

// part is a piece of a file that is done.
type part struct {
	bytes int64
	err   error
}

func movePart(f device.File, c *FileCopy, at, n int64, write bool) error {
	for n > 0 {
		move := f.ReadTo
		if write {
			move = f.WriteFrom
		}
		m, err := move(c.Device.Add(at), n, c.Offset+at)
		if err != nil {
			return err
		}
		if m <= 0 {
			return fmt.Errorf("%w: cuFile moved nothing of %d bytes at offset %d", errShort, n, c.Offset+at)
		}
		at, n = at+m, n-m
	}
	return nil
}
