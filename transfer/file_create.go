package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
)

// CreateFile copies device memory to a new file at path: c without File and
// Offset. The file is there when all of it is written, and with c.Sync is
// durable; when the copy fails, or ctx ends, what was at path before is left
// as it was. A file at path is replaced.
//
// The bytes are written to a hidden file in the same directory, which is then
// renamed; only a process that is killed leaves it behind. Room on the disk is
// reserved first where the file system can: too little fails at once.
func (e *Engine) CreateFile(ctx context.Context, path string, c FileCopy) (r FileReport, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	fail := func(err error) (FileReport, error) {
		return r, fmt.Errorf("transfer: create %s: %w", path, err)
	}
	if c.File != nil || c.Offset != 0 {
		return fail(fmt.Errorf("%w: a file to create has no File, nor an Offset (%d)", device.ErrArgument, c.Offset))
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() && info.Mode().Type() != os.ModeSymlink {
		return fail(fmt.Errorf("%w: it exists and is %s", device.ErrArgument, kindOf(info.Mode())))
	}
	dir := filepath.Dir(path)
	draft := filepath.Join(dir, ".pinion-"+rand.Text())
	c.File, err = os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return fail(err)
	}
	kept := false
	defer func() { // also when Progress panics
		if !kept {
			err = errors.Join(err, ignoreClosed(c.File.Close()), os.Remove(draft))
		}
	}()
	if c.Bytes > 0 {
		if err := directio.Reserve(c.File, c.Bytes); err != nil {
			return fail(err)
		}
	}
	if r, err = e.WriteFile(ctx, c); err != nil {
		return r, err
	}
	if err := c.File.Close(); err != nil {
		return fail(err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fail(err)
	}
	kept = true
	if c.Sync {
		if err := syncDir(dir); err != nil {
			return fail(err)
		}
	}
	return r, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// syncDir makes a renaming durable where directories can be synchronised.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrInvalid) || errors.Is(err, os.ErrPermission) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
