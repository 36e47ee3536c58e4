package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/transfer"
)

// NewFile is a file that a run makes, as the [Sink] of a [Pipeline]. It is at
// Path, all of it, when [Run] returns without an error; otherwise what was there
// before is left as it was. A file that is replaced keeps its permissions; where
// Path is a symbolic link, the file that it points to is replaced. Room on the
// disk is reserved before the run where the file system can.
type NewFile struct {
	Path  string
	Bytes int64
	Sync  bool // it is durable when Run returns
}

// Size implements [Sink].
func (f NewFile) Size() int64 { return f.Bytes }

// WriteFrom implements [Sink]. It fails: only [Run] knows when all is written.
func (f NewFile) WriteFrom(context.Context, *transfer.Engine, device.Ptr, int64, int64, func(done, total int64)) error {
	return fmt.Errorf("transfer: pipeline: %w: %s is written by Run alone", device.ErrArgument, f.Path)
}

// draft is a new file that is being written.
type draft struct {
	NewFile
	file *atomicfile.File
}

func (f NewFile) create() (*draft, error) {
	file, err := atomicfile.Create(f.Path, 0o666)
	if err != nil {
		return nil, err
	}
	if f.Bytes > 0 {
		if err := directio.Reserve(file.File, f.Bytes); err != nil {
			return nil, errors.Join(err, file.Discard())
		}
	}
	return &draft{f, file}, nil
}

// part is where the run writes.
func (d *draft) part() FileRange { return FileRange{File: d.file.File, Bytes: d.Bytes} }

// commit puts the file in its place.
func (d *draft) commit() error {
	if d.Sync {
		return d.file.Commit()
	}
	return d.file.CommitUnsynced()
}
