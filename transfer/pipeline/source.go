package pipeline

import (
	"context"
	"os"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// Source is where the data of a [Pipeline] come from.
type Source interface {
	// Size is the number of bytes. It does not change during a run.
	Size() int64

	// ReadTo copies n bytes at offset to device memory at dst and returns when
	// they are there or nothing is under way any more. It is called for two
	// chunks at once. progress may be called with the bytes copied so far; the
	// copy of the next chunk begins when most of this one is done, which keeps
	// the link busy between the two, at the latest when ReadTo returns.
	ReadTo(ctx context.Context, e *transfer.Engine, dst device.Ptr, offset, n int64, progress func(done, total int64)) error
}

// Sink is where the results of a [Pipeline] go.
type Sink interface {
	// Size is the number of bytes. It does not change during a run.
	Size() int64

	// WriteFrom copies n bytes of device memory at src to offset, under the
	// rules of [Source.ReadTo].
	WriteFrom(ctx context.Context, e *transfer.Engine, src device.Ptr, offset, n int64, progress func(done, total int64)) error
}

// Bytes is host memory as the [Source] or [Sink] of a [Pipeline]. It must not
// be touched during the run, except to read a source. Where all of it is
// pinned, chunks are copied straight from and to it.
type Bytes []byte

// Size implements [Source] and [Sink].
func (b Bytes) Size() int64 { return int64(len(b)) }

// ReadTo implements [Source].
func (b Bytes) ReadTo(ctx context.Context, e *transfer.Engine, dst device.Ptr, offset, n int64, progress func(done, total int64)) error {
	return e.Do(ctx, transfer.Copy{Host: b[offset : offset+n], Device: dst, Progress: progress})
}

// WriteFrom implements [Sink].
func (b Bytes) WriteFrom(ctx context.Context, e *transfer.Engine, src device.Ptr, offset, n int64, progress func(done, total int64)) error {
	return e.Do(ctx, transfer.Copy{Host: b[offset : offset+n], Device: src, ToHost: true, Progress: progress})
}

// FileRange is a part of an open file as the [Source] or [Sink] of a
// [Pipeline]. The file stays the caller's; see [transfer.FileCopy]. [Run] looks
// before it starts whether the file has the range. As a sink it is written in
// place, and may be larger or smaller before; see [NewFile] for files that are
// complete or not there.
type FileRange struct {
	File   *os.File
	Offset int64 // of the range in the file
	Bytes  int64
	Path   transfer.FilePath // default: [transfer.FileAuto]
}

// check looks at the file before a run starts.
func (f FileRange) check(write bool) error {
	c := f.part(0, 0, f.Bytes, nil)
	return c.Check(write)
}

// Size implements [Source] and [Sink].
func (f FileRange) Size() int64 { return f.Bytes }

// ReadTo implements [Source].
func (f FileRange) ReadTo(ctx context.Context, e *transfer.Engine, dst device.Ptr, offset, n int64, progress func(done, total int64)) error {
	_, err := e.ReadFile(ctx, f.part(dst, offset, n, progress))
	return err
}

// WriteFrom implements [Sink].
func (f FileRange) WriteFrom(ctx context.Context, e *transfer.Engine, src device.Ptr, offset, n int64, progress func(done, total int64)) error {
	_, err := e.WriteFile(ctx, f.part(src, offset, n, progress))
	return err
}

func (f FileRange) part(p device.Ptr, offset, n int64, progress func(done, total int64)) transfer.FileCopy {
	return transfer.FileCopy{File: f.File, Offset: f.Offset + offset, Device: p, Bytes: n, Path: f.Path, Progress: progress}
}

var (
	_ Source = Bytes(nil)
	_ Sink   = Bytes(nil)
	_ Source = FileRange{}
	_ Sink   = FileRange{}
)
