package parallel

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrArgument: a rank, size or type that cannot be right.
	ErrArgument = errs.ErrArgument
	// ErrClosed: the communicator was closed before.
	ErrClosed = errs.ErrClosed
	// ErrAborted: the communicator was ended by [Comm].Abort. The reason is in the
	// error, too.
	ErrAborted = errors.New("communicator aborted")
	// ErrMismatch: ranks do not make the same calls.
	ErrMismatch = errors.New("ranks do not make the same calls")
)

// CheckReduce checks the arguments of a reduction, for implementations of [Comm].
func CheckReduce(what string, t dtype.DType, op Op, parts []Part) error {
	if !Reduces(t, op) {
		return fmt.Errorf("parallel: %s: %w: numbers of type %v have no %v", what, ErrArgument, t, op)
	}
	for _, x := range parts {
		if x.N < 0 {
			return fmt.Errorf("parallel: %s: %w: %d elements", what, ErrArgument, x.N)
		}
		for _, p := range []device.Ptr{x.Recv, x.Send} {
			if uint64(p)%uint64(t.Size()) != 0 {
				return fmt.Errorf("parallel: %s: %w: %v at %#x, which is not aligned to %d bytes", what, ErrArgument, t, uint64(p), t.Size())
			}
		}
	}
	return nil
}

// CheckRank checks a rank of c and a number of bytes, for implementations of [Comm].
func CheckRank(what string, c Comm, rank int, bytes int64) error {
	switch {
	case rank < 0 || rank >= c.Size():
		return fmt.Errorf("parallel: %s: %w: rank %d of %d", what, ErrArgument, rank, c.Size())
	case bytes < 0:
		return fmt.Errorf("parallel: %s: %w: %d bytes", what, ErrArgument, bytes)
	}
	return nil
}
