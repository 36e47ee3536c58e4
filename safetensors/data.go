package safetensors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
)

// Data reads the bytes of a tensor that was found in a [File] or a
// [Checkpoint]: little-endian elements, rows one behind the other.
func (t Tensor) Data() *io.SectionReader {
	return io.NewSectionReader(t.File.file, t.Offset, t.Bytes)
}

// Range returns a part of a tensor: of its first axis, what is from from on and
// before to. It is a tensor like any other, which is read without the rest. It
// fails with [ErrArgument] for a scalar, a range that is not in the tensor, and
// one that does not begin and end at whole bytes, as packed types may have it.
func (t Tensor) Range(from, to int64) (Tensor, error) {
	if len(t.Shape) == 0 {
		return Tensor{}, fmt.Errorf("%w: %.80q is a scalar and has no axis", ErrArgument, t.Name)
	}
	rows := t.Shape[0]
	if from < 0 || to < from || to > rows {
		return Tensor{}, fmt.Errorf("%w: %d to %d of the first axis of %.80q, which has %d", ErrArgument, from, to, t.Name, rows)
	}
	bits := t.DType.Bits() // of a row
	for _, d := range t.Shape[1:] {
		bits *= d
	}
	if from*bits%8 != 0 || to*bits%8 != 0 {
		return Tensor{}, fmt.Errorf("%w: %d to %d of the first axis of %.80q, of %d bits each, are no whole bytes", ErrArgument, from, to, t.Name, bits)
	}
	t.Shape = append([]int64{to - from}, t.Shape[1:]...)
	t.Offset += from * bits / 8
	t.Bytes = (to - from) * bits / 8
	return t, nil
}

// At is [Tensor.Range] of one element of the first axis, without that axis.
func (t Tensor) At(i int64) (Tensor, error) {
	part, err := t.Range(i, i+1)
	if err != nil {
		return Tensor{}, err
	}
	part.Shape = part.Shape[1:]
	return part, nil
}

// Into is a tensor, or a part of one, and the memory for it.
type Into struct {
	Tensor
	Memory []byte // of t.Bytes bytes
}

// Read reads tensors into host memory that the caller gives, in any order, by
// several goroutines at once. It fails with [ErrArgument] for memory of another
// size, with [io.ErrUnexpectedEOF] where a file has shrunk, and with ctx's error;
// nothing touches the memory any more when it returns. (For device memory there
// is package checkpoint.)
func Read(ctx context.Context, tensors ...Into) error {
	var pieces []Into
	for _, t := range tensors {
		switch {
		case t.File == nil:
			return fmt.Errorf("%w: %.80q is in no file", ErrArgument, t.Name)
		case int64(len(t.Memory)) != t.Bytes:
			return fmt.Errorf("%w: %d bytes of memory for %.80q, which has %d", ErrArgument, len(t.Memory), t.Name, t.Bytes)
		}
		for t.Bytes > 0 {
			p := t
			p.Bytes = min(readPiece, t.Bytes)
			p.Memory = t.Memory[:p.Bytes]
			pieces = append(pieces, p)
			t.Offset, t.Bytes, t.Memory = t.Offset+p.Bytes, t.Bytes-p.Bytes, t.Memory[p.Bytes:]
		}
	}
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxReaders, len(pieces)) {
		all.Go(func() {
			for reading.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(pieces) {
					return
				}
				if err := pieces[i].read(); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(reading)
}

const (
	readPiece  = 8 << 20 // bytes that are read in one go
	maxReaders = 16
)

func (p *Into) read() error {
	n, err := p.File.file.ReadAt(p.Memory, p.Offset)
	switch {
	case n == len(p.Memory):
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: the file has shrunk, %d of %d bytes at %d: %w", p.File.path, n, len(p.Memory), p.Offset, io.ErrUnexpectedEOF)
	}
	return err
}
