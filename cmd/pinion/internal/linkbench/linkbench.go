package linkbench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// Options tune a run. The zero value works.
type Options struct {
	Size    int64 // bytes of a bulk copy, the largest there is; default 1 GiB
	Repeats int   // timed repeats of each path; default 7
	Copiers int   // of the staged path; default that of package transfer
	Curves  bool  // measure every path over sizes from 1 KiB to Size too

	// CurveTime is about how long the curves may take: sizes that would take
	// longer have fewer repeats, 3 at least. Default: 18 s.
	CurveTime time.Duration

	// Progress, if set, is called before each step.
	Progress func(step, steps int, what string)
}

// Report is the outcome of a run.
type Report struct {
	Size    int64
	Repeats int
	Bulk    []Bulk
	Small   []Timing // copies of 4 KiB, with the wait for them
	Pin     []Timing // making Size bytes of pinned memory
	Curves  []Curve  // empty without Options.Curves
	Choice  []Choice // likewise
	Skipped []Skipped
}

// Bulk is the rate of one path in one direction, in bytes a second.
type Bulk struct {
	Path, Direction     string
	Median, Least, Most float64
	OfBest              float64 // Median over the best Median in that direction
}

// Timing is the time that something took.
type Timing struct {
	What                string
	Median, Least, Most time.Duration
}

// Skipped is a path that this machine does not have.
type Skipped struct {
	Path string
	Why  error
}

// MinSize is the smallest Options.Size, in bytes: one block of the mapped path.
const MinSize = blockBytes

const (
	smallBytes  = 4096
	smallRounds = 200 // copies timed as one repeat
	blockBytes  = 16 << 10
)

// bench holds the memory of a run.
type bench struct {
	dev      device.Device
	o        Options
	stream   device.Stream
	reverse  device.Stream
	pageable []byte
	back     []byte // pageable memory that copies from the device land in
	up, down *pinned.Buffer
	a, b     device.Ptr
	index    device.Ptr
	engine   *transfer.Engine // stages everything
	chooser  *transfer.Engine // as it comes; nil unless there are curves
	kernels  *kernels.Set
	undo     []func() error
}

// Run measures dev.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	if o.Size < 0 || o.Repeats < 0 || o.Copiers < 0 || o.CurveTime < 0 {
		return nil, fmt.Errorf("%w: size %d, repeats %d, copiers %d, %v for curves",
			device.ErrArgument, o.Size, o.Repeats, o.Copiers, o.CurveTime)
	}
	if o.Size == 0 {
		o.Size = 1 << 30
	}
	if o.Size < MinSize {
		return nil, fmt.Errorf("%w: size %d: the smallest that says anything is %d bytes", device.ErrArgument, o.Size, MinSize)
	}
	if o.Repeats == 0 {
		o.Repeats = 7
	}
	if o.CurveTime == 0 {
		o.CurveTime = 18 * time.Second
	}
	b := &bench{dev: dev, o: o}
	defer func() { err = errors.Join(err, b.close()) }()
	report = &Report{Size: o.Size, Repeats: o.Repeats}
	if err := b.prepare(report); err != nil {
		return nil, err
	}
	if err := b.measure(ctx, report); err != nil {
		return nil, err
	}
	if o.Curves {
		if err := b.sweep(ctx, report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

func (b *bench) step(i, n int, what string) {
	if b.o.Progress != nil {
		b.o.Progress(i, n, what)
	}
}

// later registers what close undoes, last first.
func (b *bench) later(undo func() error) { b.undo = append(b.undo, undo) }

func (b *bench) close() error {
	errs := []error{b.dev.Synchronize()}
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// prepare takes all memory and fills the sources with bytes that no copy could
// leave by accident.
func (b *bench) prepare(report *Report) (err error) {
	b.step(0, 1, "preparing memory")
	for _, s := range []*device.Stream{&b.stream, &b.reverse} {
		if *s, err = b.dev.NewStream(); err != nil {
			return err
		}
		b.later((*s).Close)
	}
	for _, p := range []*device.Ptr{&b.a, &b.b} {
		if *p, err = b.dev.Alloc(b.o.Size); err != nil {
			return fmt.Errorf("two device buffers of %d bytes are needed (see --size): %w", b.o.Size, err)
		}
		b.later(func() error { return b.dev.Free(*p) })
	}
	// Ordinary Go memory, which is what callers have.
	b.pageable, b.back = make([]byte, b.o.Size), make([]byte, b.o.Size)
	var seed [32]byte
	seed[0] = 7
	rand.NewChaCha8(seed).Read(b.pageable)

	if b.engine, err = transfer.New(b.dev, transfer.Options{Copiers: b.o.Copiers, StageAbove: 1}); err != nil {
		return err
	}
	b.later(b.engine.Close)
	if b.o.Curves {
		if b.chooser, err = transfer.New(b.dev, transfer.Options{}); err != nil {
			return err
		}
		b.later(b.chooser.Close)
	}
	return b.preparePinned(report)
}

// preparePinned takes the pinned memory. Where there is none, its paths are
// skipped.
func (b *bench) preparePinned(report *Report) error {
	skip := func(why error, paths ...string) {
		for _, p := range paths {
			report.Skipped = append(report.Skipped, Skipped{p, why})
		}
	}
	pinner, pins := device.As[device.Pinner](b.dev)
	if !pins {
		skip(device.ErrNotSupported, "staged")
	}
	pool, err := pinned.NewPool(b.dev, pinned.Options{
		Budget: 2 * pagemem.RoundUp(b.o.Size), SegmentBytes: pagemem.RoundUp(b.o.Size), Flags: device.PinMapped,
	})
	if err != nil {
		skip(err, "pinned", "mapped", "pinned, both at once")
		return nil
	}
	b.later(pool.Close)
	for _, m := range []**pinned.Buffer{&b.up, &b.down} {
		buffer, err := pool.Alloc(b.o.Size)
		if err != nil {
			b.up = nil
			skip(err, "pinned", "mapped", "pinned, both at once")
			return nil
		}
		b.later(func() error { return buffer.Free() })
		*m = buffer
	}
	copy(b.up.Bytes(), b.pageable)

	if !pinner.CanMap() {
		skip(device.ErrNotSupported, "mapped")
		return nil
	}
	if b.kernels, err = kernels.Load(b.dev); err != nil {
		skip(err, "mapped")
		return nil
	}
	b.later(b.kernels.Close)
	blocks := b.o.Size / blockBytes
	index := make([]byte, 0, blocks*8)
	for i := range blocks {
		index = append(index, byte(i), byte(i>>8), byte(i>>16), byte(i>>24), byte(i>>32), 0, 0, 0)
	}
	if b.index, err = b.dev.Alloc(blocks * 8); err != nil {
		return err
	}
	b.later(func() error { return b.dev.Free(b.index) })
	return b.engine.H2D(context.Background(), b.index, index)
}
