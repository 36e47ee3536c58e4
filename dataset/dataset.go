package dataset

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
)

// Dataset is a fixed number of samples of one shape. It is safe for
// concurrent use.
type Dataset interface {
	// Len returns the number of samples, at least 1.
	Len() int
	// Spec returns the shape and the element type of one sample.
	Spec() Spec
	// Name names sample i in messages: a file's path, or "file.npy[17]".
	Name(i int) string
	// Label returns the class of sample i, or -1 where there is none.
	Label(i int) int32
	// NewReader makes a reader for one worker.
	NewReader() (Reader, error)
}

// Reader reads samples of a dataset. It is not safe for concurrent use.
type Reader interface {
	// Read writes sample i into dst, whose length is the spec's Bytes. It
	// adds the time of its stages to t, unless t is nil. After an error the
	// content of dst is undefined; the reader stays usable.
	Read(i int, dst []byte, t *Timing) error
	// Close frees the reader. Later reads fail with [fs.ErrClosed].
	Close() error
}

// Spec is the form of one sample. Elements are dense, in row-major order.
type Spec struct {
	Shape []int // nil for a scalar
	DType dtype.DType
}

// Bytes returns the bytes of one sample.
func (s Spec) Bytes() int {
	n := s.DType.Size()
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// String returns "224x224x3 u8", or "scalar f32".
func (s Spec) String() string {
	if len(s.Shape) == 0 {
		return "scalar " + s.DType.String()
	}
	dims := make([]string, len(s.Shape))
	for i, d := range s.Shape {
		dims[i] = fmt.Sprint(d)
	}
	return strings.Join(dims, "x") + " " + s.DType.String()
}

// Timing collects the time that reading samples takes, by stage.
type Timing struct {
	Read   time.Duration // file input
	Decode time.Duration // decompression
	Resize time.Duration // resizing, and colour conversion where it is part of it
}

// checkRead checks the arguments of [Reader.Read].
func checkRead(d Dataset, i int, dst []byte, bytes int) error {
	if i < 0 || i >= d.Len() {
		return fmt.Errorf("%w: sample %d of %d", ErrArgument, i, d.Len())
	}
	if len(dst) != bytes {
		return fmt.Errorf("%s: %w: a destination of %d bytes, a sample has %d", d.Name(i), ErrArgument, len(dst), bytes)
	}
	return nil
}
