// Package managedbench measures how data gets from the host's hands into the
// device's, and back, by managed memory and by copies: what `pinion bench
// managed` runs.
//
// To the device the host writes first; the clock runs until a kernel has read
// all of it. To the host the device writes first; the clock runs until the host
// has touched every page. Every way is checked for correct bytes first, which
// also warms it up, and the ways are timed in turn by package internal/measure.
//
// Managed memory is at most an eighth of the device's free memory: never more
// than fits.
package managedbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// Options tune a run. The zero value works.
type Options struct {
	// Size is the largest amount of data, in bytes, a multiple of MinSize; a
	// sixteenth and a 256th of it are measured too. Default: 256 MiB, or less
	// where memory is short.
	Size int64

	Repeats int // timed repeats of each way; default 7

	// Progress, if set, is called before each step.
	Progress func(step, steps int, what string)
}

// MinSize is the smallest Options.Size, in bytes.
const MinSize = 64 << 10

const (
	defaultSize = 256 << 20
	blockBytes  = 16 << 10 // that a kernel moves
	pageBytes   = 4096
)

// Report is the outcome of a run.
type Report struct {
	Migration  device.Migration
	Sizes      []int64 // ascending
	SizeReason string  // why the largest is less than the default
	Repeats    int
	Rows       []Row // by direction, then by way, then by size
	Skipped    []Skipped
}

// Row is one way at one size.
type Row struct {
	Way                 string // one of Ways
	Direction           string // "h2d" or "d2h"
	Bytes               int64
	Median, Least, Most time.Duration
}

// PerSecond is the median rate in bytes a second.
func (r Row) PerSecond() float64 { return float64(r.Bytes) / r.Median.Seconds() }

// Skipped is a way that this machine does not have.
type Skipped struct {
	Way, Direction string
	Why            error
}

// The ways.
const (
	OnDemand   = "on demand"
	Prefetched = "prefetched"
	InPlace    = "in place"
	Pinned     = "pinned"
	Staged     = "staged"
	Pageable   = "pageable"
)

// Run measures dev. It fails with [device.ErrNotSupported] on a device without
// managed memory or kernels.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	if o.Size < 0 || o.Repeats < 0 || o.Size%MinSize != 0 {
		return nil, fmt.Errorf("%w: size %d, which has to be a multiple of %d, and %d repeats", device.ErrArgument, o.Size, MinSize, o.Repeats)
	}
	if o.Repeats == 0 {
		o.Repeats = 7
	}
	manager, ok := device.As[device.Manager](dev)
	if !ok || !manager.CanManage() {
		return nil, fmt.Errorf("%s: managed memory: %w", dev.Info().ID, device.ErrNotSupported)
	}
	report = &Report{Migration: manager.Migration(), Repeats: o.Repeats}
	if o.Size, report.SizeReason, err = chooseSize(dev, o.Size); err != nil {
		return nil, err
	}
	b := &bench{dev: dev, manager: manager, o: o, ctx: ctx}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(); err != nil {
		return nil, err
	}
	for n := o.Size; n >= MinSize; n /= 16 {
		report.Sizes = append(report.Sizes, n/MinSize*MinSize)
	}
	report.Sizes = report.Sizes[:min(len(report.Sizes), 3)]
	slices.Reverse(report.Sizes)
	return report, b.measure(report)
}

// chooseSize returns the size to measure: the one asked for, if there is room,
// or for 0 the default or a half, a quarter and so on of it, with the reason.
func chooseSize(dev device.Device, asked int64) (size int64, reason string, err error) {
	memory, err := dev.Memory()
	if err != nil {
		return 0, "", err
	}
	room := memory.FreeBytes / 8
	why := fmt.Sprintf("%s of device memory are free, of which an eighth is used", units.Bytes(memory.FreeBytes))
	// Pageable memory to copy from and to, pinned and managed memory; and what is
	// on the device, where that is host memory too. Nothing available means that
	// nothing is known.
	shares := int64(5)
	if dev.Info().Integrated {
		shares += 2
	}
	if free := sysmem.Available(); free > 0 && free/(2*shares) < room {
		room = free / (2 * shares)
		why = fmt.Sprintf("%s of host memory are available, and %d times the size is taken", units.Bytes(free), shares)
	}
	if asked > room {
		return 0, "", fmt.Errorf("%w: %s is too large: %s", device.ErrOutOfMemory, units.Bytes(asked), why)
	}
	if asked > 0 {
		return asked, "", nil
	}
	for size = defaultSize; size > room; size /= 2 {
		if size == MinSize {
			return 0, "", fmt.Errorf("%w: too little for %s: %s", device.ErrOutOfMemory, units.Bytes(MinSize), why)
		}
		reason = why
	}
	return size, reason, nil
}

// bench holds the memory of a run, each part o.Size bytes.
type bench struct {
	ctx     context.Context
	dev     device.Device
	manager device.Manager
	o       Options
	stream  device.Stream
	kernels *kernels.Set

	source, back []byte     // pageable: the data, and where it comes back to
	managed      device.Ptr // and the same for the host:
	view         []byte
	mem, sink    device.Ptr       // where copies go, and where the kernel puts what it reads
	index        device.Ptr       // of all blocks, in order
	pinned       *pinned.Buffer   // nil where there is none
	noPinned     error            // why
	engine       *transfer.Engine // that stages everything; nil where nothing can be staged
	noEngine     error
	seen         byte // of the pages that the host touched
	undo         []func() error
}

func (b *bench) later(undo func() error) { b.undo = append(b.undo, undo) }

func (b *bench) close() error {
	errs := []error{b.dev.Synchronize()}
	for _, undo := range slices.Backward(b.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// measure checks all ways, and times them, size by size.
func (b *bench) measure(report *Report) error {
	total := len(report.Sizes) * len(b.ways(0)) * (1 + b.o.Repeats)
	done := 0
	for _, n := range report.Sizes {
		ways := b.ways(n)
		var samples []*measure.Sample
		for _, w := range ways {
			samples = append(samples, &measure.Sample{
				Row:   measure.Row{Name: w.name + " " + w.direction},
				Check: func() error { return b.check(w, n) },
				Run:   func() (float64, error) { return b.time(w) },
			})
		}
		skipped, err := measure.Plan{
			Repeats: b.o.Repeats, Impossible: impossible,
			Progress: func(step, _ int, what string) {
				if b.o.Progress != nil {
					b.o.Progress(done+step, total, units.Bytes(n)+" "+what)
				}
			},
		}.Run(b.ctx, samples)
		if err != nil {
			return err
		}
		done += len(samples) * (1 + b.o.Repeats)
		for i, w := range ways {
			if runs := samples[i].Runs; runs != nil {
				median, least, most := stats.Spread(runs)
				report.Rows = append(report.Rows, Row{w.name, w.direction, n, time.Duration(median), time.Duration(least), time.Duration(most)})
				continue
			}
			for _, s := range skipped {
				if s.Name == samples[i].Row.Name && n == report.Sizes[0] {
					report.Skipped = append(report.Skipped, Skipped{w.name, w.direction, s.Err})
				}
			}
		}
	}
	slices.SortStableFunc(report.Rows, func(x, y Row) int { return b.rank(x) - b.rank(y) })
	return nil
}

// rank is the place of a row's way among the ways.
func (b *bench) rank(r Row) int {
	return slices.IndexFunc(b.ways(0), func(w way) bool { return w.name == r.Way && w.direction == r.Direction })
}

// time gives the nanoseconds that a way takes, without what comes before.
func (b *bench) time(w way) (float64, error) {
	if err := w.before(); err != nil {
		return 0, err
	}
	start := time.Now()
	err := w.run()
	took := measure.Since(start, time.Nanosecond)
	if w.after != nil {
		err = errors.Join(err, w.after())
	}
	return took, err
}

// impossible reports whether err says that this machine does not have a way.
func impossible(err error) bool {
	return errors.Is(err, device.ErrNotSupported) || errors.Is(err, device.ErrPinLimit)
}
