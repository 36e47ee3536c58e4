package outofcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// Array is an array in host memory: a slice ([Floats], [BFloats]), or the bytes
// of a mapped file.
type Array struct {
	Bytes []byte // little-endian, aligned to an element
	Type  dtype.DType
}

// Floats is the array of the elements of v, which stays the caller's.
func Floats(v []float32) Array { return Array{bytesOf(v), dtype.F32} }

// BFloats is the array of the bfloat16 numbers whose bits are in v, which stays
// the caller's.
func BFloats(v []uint16) Array { return Array{bytesOf(v), dtype.BF16} }

// Map is an operation on each element of one or two arrays.
type Map struct {
	// Op is what is done, with the factors A and B, which have no default.
	// Default: Func.
	Op   kernels.CombineOp
	A, B float32

	// Func queues work of the caller's own on s instead, on n elements at x,
	// and at y where there is a Y, that makes n elements at out, which may be
	// x. It must not wait for s.
	Func func(s device.Stream, out, x, y device.Ptr, n int64) error

	X, Y Array // Y: of the type and length of X, or without Bytes

	// Out takes the results, and has the type and length of X. It may be X or
	// Y; otherwise it must overlap neither. Default: the file at Path.
	Out Array

	// Path is a file that is made of the results, little-endian. It is there,
	// all of it, when Map returns without an error; otherwise what was at Path
	// before is left as it was.
	Path string
}

// Map carries out m by chunks: one is computed on while the next one comes in
// and the one before goes out. It returns when the results are there, or when
// it failed or ctx ended, and then nothing touches the arrays any more; Out
// holds a mixture of old and new. Arrays that do not go together fail with
// [device.ErrArgument].
func (r *Runner) Map(ctx context.Context, m Map) (pipeline.Report, error) {
	p, err := m.pipeline()
	if err == nil {
		queue := m.Func
		if queue == nil {
			queue = r.combine(kernels.Combine{Op: m.Op, A: m.A, B: m.B, Type: m.X.Type})
		}
		p.Compute = func(s device.Stream, c pipeline.Chunk) error {
			x, y, n := m.X.split(m.Y, c)
			return queue(s, c.Out, x, y, n)
		}
		p.ChunkBytes, err = r.chunkBytes(&p, 0)
	}
	var report pipeline.Report
	if err == nil {
		report, err = pipeline.Run(ctx, r.engine, p)
	}
	return report, wrapped(ctx, "map", err)
}

// combine is the function of an operation, for [Map.Func].
func (r *Runner) combine(c kernels.Combine) func(s device.Stream, out, x, y device.Ptr, n int64) error {
	return func(s device.Stream, out, x, y device.Ptr, n int64) error {
		c := c
		c.Dst, c.X, c.Y, c.N = out, x, y, n
		return r.kernels.Combine(s, c)
	}
}

func wrapped(ctx context.Context, what string, err error) error {
	if err == nil || err == ctx.Err() {
		return err
	}
	return fmt.Errorf("outofcore: %s: %w", what, err)
}

// pipeline checks m.
func (m *Map) pipeline() (p pipeline.Pipeline, err error) {
	if p, err = sources(m.X, m.Y); err != nil {
		return p, err
	}
	size := int64(m.X.Type.Size())
	p.OutItemBytes = size
	switch {
	case m.Func != nil && m.Op != 0:
		return p, fmt.Errorf("%w: an operation and a function", device.ErrArgument)
	case m.Path != "" && m.Out.Bytes != nil:
		return p, fmt.Errorf("%w: the results go to %s, so Out has no memory", device.ErrArgument, m.Path)
	case m.Path != "":
		p.Out = pipeline.NewFile{Path: m.Path, Bytes: int64(len(m.X.Bytes))}
		p.InPlace = m.Y.Bytes == nil
		return p, nil
	case m.Out.Type != m.X.Type || len(m.Out.Bytes) != len(m.X.Bytes):
		return p, fmt.Errorf("%w: Out has %d bytes of %v, X %d of %v", device.ErrArgument,
			len(m.Out.Bytes), m.Out.Type, len(m.X.Bytes), m.X.Type)
	case !apart(m.Out.Bytes, m.X.Bytes) || !apart(m.Out.Bytes, m.Y.Bytes):
		return p, fmt.Errorf("%w: Out overlaps X or Y and is neither", device.ErrArgument)
	}
	p.Out = pipeline.Bytes(m.Out.Bytes)
	p.InPlace = m.Y.Bytes == nil
	return p, nil
}

// apart reports whether a and b begin at one place, or share no byte.
func apart(a, b []byte) bool {
	return !overlap(a, b) || unsafe.SliceData(a) == unsafe.SliceData(b)
}

// sources checks one or two arrays that are read.
func sources(x, y Array) (p pipeline.Pipeline, err error) {
	size := int64(x.Type.Size())
	switch {
	case x.Type != dtype.F32 && x.Type != dtype.BF16:
		return p, fmt.Errorf("%w: elements of type %v; f32 and bf16 are possible", device.ErrArgument, x.Type)
	case int64(len(x.Bytes))%size != 0:
		return p, fmt.Errorf("%w: X has %d bytes, which are no whole elements of %v", device.ErrArgument, len(x.Bytes), x.Type)
	case y.Bytes != nil && (y.Type != x.Type || len(y.Bytes) != len(x.Bytes)):
		return p, fmt.Errorf("%w: Y has %d bytes of %v, X %d of %v", device.ErrArgument, len(y.Bytes), y.Type, len(x.Bytes), x.Type)
	}
	p.ItemBytes, p.In = size, pipeline.Bytes(x.Bytes)
	if y.Bytes != nil {
		p.ItemBytes, p.In = 2*size, pair{x.Bytes, y.Bytes}
	}
	return p, nil
}

// split says where the elements of a chunk are.
func (x *Array) split(y Array, c pipeline.Chunk) (xs, ys device.Ptr, n int64) {
	size := int64(x.Type.Size())
	if y.Bytes == nil {
		return c.In, 0, c.InBytes / size
	}
	return c.In, c.In.Add(c.InBytes / 2), c.InBytes / 2 / size
}

// pair is two arrays of one length as a source whose chunks hold a piece of
// the first and then the same piece of the second.
type pair struct{ x, y []byte }

// Size implements [pipeline.Source].
func (p pair) Size() int64 { return int64(len(p.x) + len(p.y)) }

// ReadTo implements [pipeline.Source].
func (p pair) ReadTo(ctx context.Context, e *transfer.Engine, dst device.Ptr, offset, n int64, progress func(done, total int64)) error {
	from, half := offset/2, n/2
	if err := e.Do(ctx, transfer.Copy{Host: p.x[from : from+half], Device: dst}); err != nil {
		return err
	}
	return e.Do(ctx, transfer.Copy{Host: p.y[from : from+half], Device: dst.Add(half), Progress: func(done, _ int64) {
		progress(half+done, n)
	}})
}

// chunkBytes keeps a pipeline in the budget of the runner, beside what else the
// call takes: 0, the pipeline's own choice, where the runner has none.
func (r *Runner) chunkBytes(p *pipeline.Pipeline, beside int64) (int64, error) {
	const (
		buffers = 3        // of a pipeline
		enough  = 64 << 20 // beyond this, larger chunks hardly gain
	)
	if r.options.DeviceBytes == 0 {
		return 0, nil
	}
	each := p.ItemBytes
	if p.Out != nil && !p.InPlace {
		each += p.OutItemBytes
	}
	const align = 2 * 256 // of both sides of a buffer
	items := min(((r.options.DeviceBytes-beside)/buffers-align)/each, enough/p.ItemBytes)
	if items < 1 {
		return 0, fmt.Errorf("%w: %s for %d buffers of items of %s", ErrBudget,
			units.Bytes(r.options.DeviceBytes), buffers, units.Bytes(each))
	}
	return items * p.ItemBytes, nil
}

// Reduction makes one number of all elements of an array, or of two ([kernels.Dot]).
type Reduction struct {
	Op   kernels.ReduceOp
	X, Y Array // Y, of the type and length of X, for [kernels.Dot] alone
}

// Reduce carries out a reduction. Elements are summed in float64, in an order
// that depends on nothing but the length: the result is the same bit for bit
// whatever the device, the chunks and the memory. That of no elements is
// [kernels.ReduceOp.Identity].
func (r *Runner) Reduce(ctx context.Context, f Reduction) (value float64, report pipeline.Report, err error) {
	value, report, err = r.reduce(ctx, f)
	return value, report, wrapped(ctx, "reduce", err)
}

func (r *Runner) reduce(ctx context.Context, f Reduction) (value float64, report pipeline.Report, err error) {
	p, err := sources(f.X, f.Y)
	if err != nil {
		return 0, report, err
	}
	if f.Op < kernels.Sum || f.Op > kernels.Largest || (f.Op == kernels.Dot) != (f.Y.Bytes != nil) {
		return 0, report, fmt.Errorf("%w: reduction %d of %d bytes and %d", device.ErrArgument, f.Op, len(f.X.Bytes), len(f.Y.Bytes))
	}
	s, err := r.dev.NewStream()
	if err != nil {
		return 0, report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lanes, free, err := r.lanes(ctx, s, f.Op)
	if err != nil {
		return 0, report, err
	}
	defer func() { err = cmp.Or(err, free()) }()

	// Chunks end at whole rounds of the lanes; the rest comes at the end.
	size := int64(f.X.Type.Size())
	round := kernels.ReduceLanes * size
	whole := int64(len(f.X.Bytes)) / round * round
	add := func(s device.Stream, x, y device.Ptr, n int64) error {
		return r.kernels.Reduce(s, kernels.Reduce{Op: f.Op, Type: f.X.Type, Lanes: lanes, X: x, Y: y, N: n})
	}
	head, rest := f.cut(0, whole), f.cut(whole, int64(len(f.X.Bytes)))
	if p, err = sources(head.X, head.Y); err != nil {
		return 0, report, err
	}
	p.ItemBytes *= kernels.ReduceLanes
	p.Compute = func(s device.Stream, c pipeline.Chunk) error {
		x, y, n := head.X.split(head.Y, c)
		return add(s, x, y, n)
	}
	const beside = 2 * 8 * kernels.ReduceLanes // the lanes, and the rest
	if p.ChunkBytes, err = r.chunkBytes(&p, beside+2*512); err != nil {
		return 0, report, err
	}
	if report, err = pipeline.Run(ctx, r.engine, p); err != nil {
		return 0, report, err
	}
	if err := r.reduceRest(ctx, s, rest, add); err != nil {
		return 0, report, err
	}
	value, err = r.finish(ctx, f.Op, lanes)
	return value, report, err
}

// finish makes one value of the partial results.
func (r *Runner) finish(ctx context.Context, op kernels.ReduceOp, lanes device.Ptr) (float64, error) {
	list := make([]float64, kernels.ReduceLanes)
	b := unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 8*len(list))
	if err := r.engine.D2H(ctx, b, lanes); err != nil {
		return 0, err
	}
	return op.Finish(list), nil
}

// cut is the reduction of a part, in bytes.
func (f Reduction) cut(from, to int64) Reduction {
	f.X.Bytes = f.X.Bytes[from:to]
	if f.Y.Bytes != nil {
		f.Y.Bytes = f.Y.Bytes[from:to]
	}
	return f
}

// lanes takes memory for the partial results, and sets them.
func (r *Runner) lanes(ctx context.Context, s device.Stream, op kernels.ReduceOp) (device.Ptr, func() error, error) {
	at, free, err := r.alloc(ctx, 8*kernels.ReduceLanes)
	if err != nil {
		return 0, nil, err
	}
	err = r.kernels.Fill(s, at, 8, math.Float64bits(op.Identity()), kernels.ReduceLanes)
	if err = errors.Join(err, s.Synchronize()); err != nil {
		return 0, nil, errors.Join(err, free())
	}
	return at, free, nil
}

// reduceRest adds what fills no round of the lanes.
func (r *Runner) reduceRest(ctx context.Context, s device.Stream, f Reduction, add func(s device.Stream, x, y device.Ptr, n int64) error) (err error) {
	n := int64(len(f.X.Bytes))
	if n == 0 {
		return nil
	}
	const align = 512
	room := ceil(n, align) * align
	at, free, err := r.alloc(ctx, 2*room)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, free()) }()
	if err := r.engine.H2D(ctx, at, f.X.Bytes); err != nil {
		return err
	}
	y := device.Ptr(0)
	if f.Y.Bytes != nil {
		y = at.Add(room)
		if err := r.engine.H2D(ctx, y, f.Y.Bytes); err != nil {
			return err
		}
	}
	return errors.Join(add(s, at, y, n/int64(f.X.Type.Size())), s.Synchronize())
}
