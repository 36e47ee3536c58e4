package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/directio"
)

// CreateFile copies device memory to a file at path: c without File and
// Offset. The file is there when all of it is written, and with c.Sync is
// durable; when the copy fails, or ctx ends, what was at path before is left
// as it was. A file at path is replaced and keeps its permissions; where path
// is a symbolic link, the file that it points to is.
//
// The bytes are written to a file without a name, which is then linked, or on
// systems and file systems that have none (other than Linux; NFS) to a hidden one
// in the same directory, which a process that is killed leaves behind. Room on the
// disk is reserved first where the file system can: too little fails at once.
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
	out, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, out.Discard()) }() // also when Progress panics
	c.File, c.name = out.File, path
	if c.Bytes > 0 {
		if err := directio.Reserve(c.File, c.Bytes); err != nil {
			return fail(err)
		}
	}
	if r, err = e.WriteFile(ctx, c); err != nil {
		return r, err
	}
	if c.Sync {
		err = out.Commit()
	} else {
		err = out.CommitUnsynced()
	}
	if err != nil {
		return fail(err)
	}
	return r, nil
}
