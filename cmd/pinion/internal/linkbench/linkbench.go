package linkbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// Options tune a run. The zero value works.
type Options struct {
	Size    int64 // bytes of a bulk copy, the largest there is; default 1 GiB, or less where memory is short
	Repeats int   // timed repeats of each path; default 7
	Copiers int   // of the staged path; default that of package transfer
	Curves  bool  // measure every path over sizes from 1 KiB to Size too

	// CurveTime is about how long the curves may take: sizes that would take
	// longer have fewer repeats, 3 at least. Default: 18 s.
	CurveTime time.Duration

	// Progress, if set, is called before each step. The number of steps only
	// grows.
	Progress func(step, steps int, what string)
}

// Report is the outcome of a run.
type Report struct {
	Size       int64
	SizeReason string // why Size is less than the default; empty where it is not
	Repeats    int
	PinSize    int64 // bytes of each row of Pin
	Bulk       []Bulk
	Small      []Timing // copies of 4 KiB, with the wait for them
	Pin        []Timing // making pinned memory
	Curves     []Curve  // empty without Options.Curves
	Choice     []Choice // likewise
	Skipped    []Skipped
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
	defaultSize = 1 << 30
	mostPinned  = 1 << 30 // that is pinned to time it
)

// bench holds the memory of a run.
type bench struct {
	dev      device.Device
	o        Options
	stream   device.Stream
	reverse  device.Stream
	pageable []byte
	pinned   *pinned.Buffer   // nil where there is none
	mem      device.Ptr       // o.Size bytes of the device
	index    device.Ptr       // of the blocks that a kernel moves
	engine   *transfer.Engine // stages everything; nil where nothing can be staged
	chooser  *transfer.Engine // as it comes; nil unless there are curves
	kernels  *kernels.Set     // nil where pinned memory cannot be mapped
	undo     []func() error

	step, steps int // for Options.Progress
}

// Run measures dev.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	if o.Size < 0 || o.Repeats < 0 || o.Copiers < 0 || o.CurveTime < 0 {
		return nil, fmt.Errorf("%w: size %d, repeats %d, copiers %d, %v for curves",
			device.ErrArgument, o.Size, o.Repeats, o.Copiers, o.CurveTime)
	}
	if o.Size != 0 && o.Size < MinSize {
		return nil, fmt.Errorf("%w: size %d: the smallest that says anything is %s", device.ErrArgument, o.Size, units.Bytes(MinSize))
	}
	if o.Repeats == 0 {
		o.Repeats = 7
	}
	if o.CurveTime == 0 {
		o.CurveTime = 18 * time.Second
	}
	report = &Report{Repeats: o.Repeats}
	if report.Size, report.SizeReason, err = chooseSize(dev, o.Size); err != nil {
		return nil, err
	}
	o.Size = report.Size
	report.PinSize = min(o.Size, mostPinned)

	b := &bench{dev: dev, o: o}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, do := range []func(context.Context, *Report) error{b.prepare, b.measure, b.sweep} {
		if err := do(ctx, report); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// progress is that of the next part, of so many steps.
func (b *bench) progress(steps int) func(step, of int, what string) {
	before := b.step
	b.steps = max(b.steps, before+steps)
	b.step += steps
	return func(step, _ int, what string) {
		if b.o.Progress != nil {
			b.o.Progress(before+step, b.steps, what)
		}
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
