package dataset

import (
	"context"
	"fmt"
	"math"
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
	// Read writes sample v.Index into dst, whose length is what [SampleBytes]
	// says. Where the end of ctx can cut work short, it does. After an error
	// the content of dst is undefined; the reader stays usable.
	Read(ctx context.Context, v Visit, dst []byte) error
	// Close frees the reader. Later reads fail with [fs.ErrClosed].
	Close() error
}

// Visit is one visit of a sample.
type Visit struct {
	Index int // of the sample, from 0

	// Key is what everything random about the sample is drawn from: crops,
	// mirroring and the like. Equal keys give equal bytes. A loader makes it
	// of its seed, the epoch and the index.
	Key uint64

	// Timing, unless it is nil, gets the time of the stages added.
	Timing *Timing

	// Frame, unless it is nil, is shared by all that goes with one picture: a
	// photo, its masks and its boxes, read in this order, the photo first.
	Frame *Frame
}

// Spec is the form of one sample. Elements are dense, in row-major order.
type Spec struct {
	Shape []int // nil for a scalar
	DType dtype.DType

	// Ragged: samples differ in the length of axis 0, and Shape[0] is that of
	// the longest. The dataset is a [Ragged] one.
	Ragged bool
}

// Ragged is what a dataset is too whose samples differ in length.
type Ragged interface {
	// Length returns the length of axis 0 of sample i, from 0 on and at most
	// the spec's Shape[0]. It reads no file.
	Length(i int) int
}

// Length returns the length of axis 0 of sample i of d; 1 for a scalar.
func Length(d Dataset, i int) int {
	if r, ok := As[Ragged](d); ok {
		return r.Length(i)
	}
	if s := d.Spec(); len(s.Shape) > 0 {
		return s.Shape[0]
	}
	return 1
}

// SampleBytes returns the bytes of sample i of d: the spec's, or less where
// samples differ in length.
func SampleBytes(d Dataset, i int) int {
	s := d.Spec()
	if s.Ragged {
		return s.RowBytes() * Length(d, i)
	}
	return s.Bytes()
}

// RowBytes returns the bytes of one element of axis 0: of a point of a cloud,
// say. A scalar is one row.
func (s Spec) RowBytes() int {
	n := s.DType.Size()
	for _, d := range s.Shape[min(1, len(s.Shape)):] {
		n *= d
	}
	return n
}

// Bytes returns the bytes of one sample, the longest if they differ.
func (s Spec) Bytes() int {
	n := s.DType.Size()
	for _, d := range s.Shape {
		n *= d
	}
	return n
}

// String returns "224x224x3 u8", "scalar f32", or "<=900x4 f32" where samples
// differ in length.
func (s Spec) String() string {
	if len(s.Shape) == 0 {
		return "scalar " + s.DType.String()
	}
	dims := make([]string, len(s.Shape))
	for i, d := range s.Shape {
		dims[i] = fmt.Sprint(d)
	}
	if s.Ragged {
		dims[0] = "<=" + dims[0]
	}
	return strings.Join(dims, "x") + " " + s.DType.String()
}

// Timing collects the time that reading samples takes, by stage. Methods of a
// nil Timing do nothing.
type Timing struct {
	Read   time.Duration // file input
	Decode time.Duration // decompression
	Resize time.Duration // resizing, and colour conversion where it is part of it
}

// Start is the time now, if somebody wants to know.
func (t *Timing) Start() (now time.Time) {
	if t != nil {
		now = time.Now()
	}
	return now
}

// AddRead adds the time since start to Read.
func (t *Timing) AddRead(start time.Time) {
	if t != nil {
		t.Read += time.Since(start)
	}
}

// AddDecode adds the time since start to Decode.
func (t *Timing) AddDecode(start time.Time) {
	if t != nil {
		t.Decode += time.Since(start)
	}
}

// named is what messages about a sample need of its dataset.
type named interface {
	Len() int
	Name(i int) string
}

// CheckIndex checks the number of a sample.
func CheckIndex(d named, i int) error {
	if n := d.Len(); i < 0 || i >= n {
		return fmt.Errorf("%w: sample %d of %d", ErrArgument, i, n)
	}
	return nil
}

// CheckRead checks the arguments of [Reader.Read], where sample i has that many
// bytes. It fails with [ErrArgument].
func CheckRead(d named, i int, dst []byte, bytes int) error {
	if err := CheckIndex(d, i); err != nil {
		return err
	}
	if len(dst) != bytes {
		return fmt.Errorf("%s: %w: a destination of %d bytes, a sample has %d", d.Name(i), ErrArgument, len(dst), bytes)
	}
	return nil
}

// UnknownLen is the length of a dataset of which nobody knows how many samples
// there are, as of a stream: it is to be read from the first sample on, in order,
// until one fails with [ErrEnd], and once, unless it is a [Repeater].
const UnknownLen = math.MaxInt32

// Repeater is implemented by datasets of [UnknownLen] that may be read more than
// once, and by such [Files].
type Repeater interface {
	// Repeats returns nil, or why the dataset comes only once.
	Repeats() error
	// BeginPass ends a pass that is under way, whose reads must have ended. What
	// is read next is of the given epoch, from any sample on.
	BeginPass(epoch int)
}

// Seeder is implemented by datasets that draw the order of their samples
// themselves, such as shuffled streams. SetSeed gives the seed of the passes that
// begin later; package loader sets that of its options.
type Seeder interface {
	SetSeed(seed uint64)
}
