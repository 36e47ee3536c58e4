package procbench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/pinned/segment"
)

// Options tune a run. Args is needed, the rest has defaults.
type Options struct {
	// Args are the arguments with which this executable calls [Child].
	Args []string

	Procs   int   // processes, 1 to MaxProcs; default 2
	Size    int64 // bytes of a copy, MinSize at least; default 256 MiB
	Repeats int   // timed repeats of each steady copy; default 7

	// Timeout is how long a process may take for one answer. Default: a
	// minute, and more for large sizes.
	Timeout time.Duration

	// Progress, if set, is called before each step.
	Progress func(step, steps int, what string)
}

// Bounds of [Options].
const (
	MaxProcs = 16
	MinSize  = 16 << 10
)

// Report is the outcome of a run.
type Report struct {
	Size    int64
	Procs   int
	Repeats int
	Times   []Timing // what is not a copy
	Rows    []Row
	Skipped []Skipped
}

// Timing is the time that something took.
type Timing struct {
	What string
	Times
}

// Times are the median, the least and the most of repeated measurements.
type Times struct{ Median, Least, Most time.Duration }

// Row is one path in one direction, "h2d" or "d2h".
type Row struct {
	Path, Direction string
	First           Times // the first copy of a new process, its stream and device memory included

	// Steady copies over all processes, each alone and all together.
	Alone, Together Times
	Total           float64 // bytes a second of all processes together, the median of the repeats
	Overlap         float64 // share of the timed copies together during which all others copied too, the median

	// Rates as a fraction of what the same process reaches with private pinned
	// memory in the same condition, of the slowest process. Zero: there was no
	// private pinned memory.
	AloneOfPrivate, TogetherOfPrivate float64

	Processes []Process
}

// Process is what one process contributes to a [Row].
type Process struct {
	Alone, Together                   Times
	AloneOfPrivate, TogetherOfPrivate float64
}

// Skipped is a path that this machine does not have.
type Skipped struct {
	Path string
	Why  error
}

// Row finds a row, or returns nil.
func (r *Report) Row(path, direction string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Path == path && r.Rows[i].Direction == direction {
			return &r.Rows[i]
		}
	}
	return nil
}

// Time finds a row of Times, or returns nil.
func (r *Report) Time(what string) *Timing {
	for i := range r.Times {
		if r.Times[i].What == what {
			return &r.Times[i]
		}
	}
	return nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Procs == 0 {
		o.Procs = 2
	}
	if o.Size == 0 {
		o.Size = 256 << 20
	}
	if o.Repeats == 0 {
		o.Repeats = 7
	}
	if o.Procs < 0 || o.Procs > MaxProcs || o.Size < MinSize || o.Repeats < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("%w: %d processes of 1 to %d, copies of %d bytes of at least %d, %d repeats, %v for an answer",
			device.ErrArgument, o.Procs, MaxProcs, o.Size, MinSize, o.Repeats, o.Timeout)
	}
	if available := sysmem.Available(); available > 0 {
		// Four kinds of memory in each process, and the device's where that is
		// host memory; one buffer here.
		if most := available / int64(5*o.Procs+1); o.Size > most {
			return o, fmt.Errorf("copies of %s by %s need more than the %s of memory that are available; copies of %s fit (see --size and --procs)",
				units.Bytes(o.Size), units.Count(o.Procs, "process"), units.Bytes(available), units.Bytes(most))
		}
	}
	if o.Timeout == 0 {
		// At a rate that every working machine exceeds.
		const slow = 100e6
		o.Timeout = time.Minute + time.Duration(float64(o.Size)*float64(o.Procs)/slow*1e9)
	}
	return o, nil
}

// bench is the state of a run.
type bench struct {
	ctx     context.Context
	dev     device.Device
	o       Options
	exe     string
	part    int64            // of the segment, for each process
	segment *segment.Segment // nil: not to be had
	pool    *pinned.Pool
	sent    *pinned.Buffer // what is serialised; nil: not to be had
	seed    uint64         // of the newest process
	done    int            // steps
	workers []*worker      // that hold all kinds of memory

	skipped map[string]error           // by name of the path
	times   map[string][]time.Duration // by Timing.What
	firsts  map[copyID][]time.Duration
	steady  map[copyID]*samples
}

// copyID is a path in one direction.
type copyID struct {
	path   string
	toHost bool
}

// Run measures with processes that open the same device as dev, by its name.
// It fails with [device.ErrNotSupported] on systems without Unix sockets.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{
		ctx: ctx, dev: dev, o: o, part: pagemem.RoundUp(o.Size), skipped: map[string]error{},
		times: map[string][]time.Duration{}, firsts: map[copyID][]time.Duration{}, steady: map[copyID]*samples{},
	}
	defer func() {
		if err != nil {
			cancel() // kills the processes
		}
		err = errors.Join(err, b.close(err == nil))
		if err != nil {
			report = nil
		}
		if outer.Err() != nil {
			report, err = nil, outer.Err() // the rest is what follows from it
		}
	}()
	if b.exe, err = os.Executable(); err != nil {
		return nil, err
	}
	for _, phase := range []func() error{b.prepare, b.firstCopies, b.steadyCopies} {
		if err := phase(); err != nil {
			return nil, err
		}
	}
	return b.report(), nil
}

// prepare makes what the processes are given.
func (b *bench) prepare() (err error) {
	if b.segment, err = segment.Create(b.part*int64(b.o.Procs), segment.Options{Name: "bench processes"}); err != nil {
		if !refused(err) {
			return err
		}
		b.skip(err, shared)
	}
	b.pool, err = pinned.NewPool(b.dev, pinned.Options{Name: "bench processes", Budget: b.part, SegmentBytes: b.part})
	if err == nil {
		b.sent, err = b.pool.Alloc(context.Background(), b.o.Size)
	}
	if refused(err) {
		b.skip(fmt.Errorf("nothing to serialise: %w", err), serialised)
		return nil
	}
	return err
}

// close ends what is left of the processes, in order or not.
func (b *bench) close(orderly bool) (err error) {
	for _, w := range b.workers {
		err = errors.Join(err, w.end(orderly))
	}
	if b.sent != nil {
		err = errors.Join(err, b.sent.Free())
	}
	if b.pool != nil {
		err = errors.Join(err, b.pool.Close())
	}
	if b.segment != nil {
		err = errors.Join(err, b.segment.Close())
	}
	return err
}

// refused tells what a machine lacks, or has too little of, from real failures.
func refused(err error) bool {
	return errors.Is(err, device.ErrPinLimit) || errors.Is(err, device.ErrNotSupported)
}

// skip leaves out all paths of that kind of memory.
func (b *bench) skip(why error, m memory) {
	for _, p := range paths {
		if p.memory == m {
			b.skipPath(why, p)
		}
	}
}

func (b *bench) skipPath(why error, p path) {
	if b.whySkipped(p) == nil {
		b.skipped[p.name] = why
	}
}

// whySkipped is nil for a path that is measured.
func (b *bench) whySkipped(p path) error { return b.skipped[p.name] }

// step announces a step, and ends the run between two of them.
func (b *bench) step(what string) error {
	if b.o.Progress != nil {
		copies := len(paths) * len(directions)
		total := len(paths)*b.o.Procs + 1 + b.o.Repeats*copies
		b.o.Progress(min(b.done, total-1), total, what)
	}
	b.done++
	return b.ctx.Err()
}
