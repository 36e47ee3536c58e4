package transfer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer/internal/staging"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// Options tune an [Engine]. The zero value suits most machines.
type Options struct {
	// Pool gives the pinned memory for staging, Copiers x Slots x SlotBytes
	// of it, taken at the first copy that needs it. Default: a pool of the
	// engine's own with that budget.
	Pool *pinned.Pool

	// Copiers is the most goroutines that stage pageable memory, the caller's
	// own included. One moves about 8 GB/s; 8 to 16 fill a PCIe 5 link.
	// Default: GOMAXPROCS, at most 12.
	Copiers int

	// Slots is the number of pinned slots in each copier's ring. Default: 4.
	Slots int

	// SlotBytes is the size of a slot, and of the largest chunk. Default: 2 MiB.
	SlotBytes int64

	// StageAbove is the size in bytes up to which pageable memory is left to
	// the driver's plain copy: below it, staging costs more than it gains. A
	// value here turns the model off for pageable copies. Default: as the
	// model says, and 1 MiB where there is none; on a device that shares the
	// host's memory everything is left to it, since staging could gain
	// nothing.
	StageAbove int64

	// FileWorkers is the most goroutines that read files past the page cache,
	// or write files, the callers' own included. They are apart from the
	// Copiers, which a slow disk would hold up, and have one pinned slot each,
	// FileWorkers x SlotBytes beyond Pool, taken when they are first needed. (A
	// disk that the processor copies for is faster into memory that it has just
	// used: with four slots each, reads took 10 % longer on an H200 machine.)
	// Default: 8.
	FileWorkers int

	// Model is what the engine chooses paths by; one without paths stands for
	// rules of thumb. Default: the one that [linkmodel.Load] finds for the
	// device, if any.
	Model *linkmodel.Model
}

func (o Options) withDefaults() (Options, error) {
	if o.Copiers < 0 || o.FileWorkers < 0 || o.Slots < 0 || o.SlotBytes < 0 || o.StageAbove < 0 {
		return o, fmt.Errorf("transfer: %w: negative option: %d copiers, %d file workers, %d slots of %s, staging above %s",
			device.ErrArgument, o.Copiers, o.FileWorkers, o.Slots, units.Bytes(o.SlotBytes), units.Bytes(o.StageAbove))
	}
	if o.Copiers > maxCopiers || o.FileWorkers > maxCopiers || o.Slots > maxCopiers || o.SlotBytes > math.MaxInt64/maxCopiers/maxCopiers {
		return o, fmt.Errorf("transfer: %w: %d copiers with %d slots of %s, %d file workers; at most %d of each",
			device.ErrArgument, o.Copiers, o.Slots, units.Bytes(o.SlotBytes), o.FileWorkers, maxCopiers)
	}
	if o.Copiers == 0 {
		o.Copiers = linkmodel.DefaultCopiers()
	}
	if o.FileWorkers == 0 {
		o.FileWorkers = 8
	}
	if o.Slots == 0 {
		o.Slots = staging.DefaultSlots
	}
	if o.SlotBytes == 0 {
		o.SlotBytes = defaultSlotBytes
	}
	return o, nil
}

const (
	defaultSlotBytes  = linkmodel.DefaultSlotBytes
	defaultStageAbove = 1 << 20
	maxCopiers        = linkmodel.MaxCopiers
)

// Engine copies between host memory and one device. Its methods are safe for
// concurrent use.
type Engine struct {
	dev     device.Device
	pinner  device.Pinner // nil where nothing can be pinned
	can     abilities
	options Options
	model   ModelInfo
	plain   atomic.Bool      // nothing is staged, because nothing can be pinned
	choices *linkmodel.Table // nil: StageAbove decides

	streams streamPool
	stager  *staging.Stager
	files   *staging.Stager // for files whose speed is the disk's
	bridges bridges
	marks   marks
	closed  atomic.Bool
	traffic traffics
	group   string // of a timeline's rows

	set struct { // the device's kernels, loaded when they are first needed
		sync.Mutex
		loaded *kernels.Set
		err    error
		closed bool
	}
}

// New makes an engine for dev. Nothing is allocated on the device or pinned
// until a copy needs it.
func New(dev device.Device, options Options) (*Engine, error) {
	if dev == nil {
		return nil, fmt.Errorf("transfer: %w: no device", device.ErrArgument)
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if options.Model != nil {
		if err := options.Model.Check(); err != nil {
			return nil, fmt.Errorf("transfer: %w: the model: %w", device.ErrArgument, err)
		}
	}
	pinner, ok := device.As[device.Pinner](dev)
	e := &Engine{
		dev:     dev,
		pinner:  pinner,
		can:     abilitiesOf(dev),
		options: options,
		streams: streamPool{dev: dev},
	}
	info := dev.Info()
	e.group = "transfer " + info.ID
	e.findModel(info.Integrated)
	switch m := e.options.Model; {
	case options.StageAbove > 0: // the caller decides
	case info.Integrated:
		ok = false // nothing is staged
	case m != nil && len(m.Paths) > 0:
		e.choices = m.Table(options.Copiers)
	default:
		e.options.StageAbove = defaultStageAbove
	}
	e.plain.Store(!ok)
	e.stager = staging.New(staging.Options{
		Device: dev, Pool: options.Pool, Copiers: options.Copiers, Slots: options.Slots, SlotBytes: options.SlotBytes,
	})
	e.files = staging.New(staging.Options{
		Device: dev, Copiers: options.FileWorkers, Slots: 1, SlotBytes: options.SlotBytes, Pageable: true,
	})
	live.Add(e)
	return e, nil
}

// Copy describes one copy between host and device memory.
type Copy struct {
	Host   []byte     // the host's side; its length is the size of the copy
	Device device.Ptr // the device's side
	ToHost bool       // from device to host instead of host to device

	// After, if set, is an event that the copy waits for: neither side is
	// touched before its newest mark is passed. It stays the caller's.
	After device.Event

	// On, if set, is a stream in whose order the copy takes place: behind all
	// that is queued on it so far, before all that is queued on it later. The
	// call may then return before the copy is done; see "Order" in the package
	// documentation. Default: no order, and the call returns when it is done.
	On device.Stream

	// Progress, if set, is called with the bytes copied so far, from the
	// goroutine that called [Engine.Do], the last time with done == total. It
	// is not called for a copy that is only queued.
	Progress func(done, total int64)
}

// H2D copies src to device memory at dst and returns when it is there. It does
// not wait for what is queued on any stream: see [Copy] for copies that do.
func (e *Engine) H2D(ctx context.Context, dst device.Ptr, src []byte) error {
	return e.Do(ctx, Copy{Host: src, Device: dst})
}

// D2H copies len(dst) bytes of device memory at src into dst and returns when
// they are there. It does not wait for what is queued on any stream: see [Copy]
// for copies that do.
func (e *Engine) D2H(ctx context.Context, dst []byte, src device.Ptr) error {
	return e.Do(ctx, Copy{Host: dst, Device: src, ToHost: true})
}

// Do carries out a copy and returns when it is done, or with c.On perhaps when
// it is queued. When ctx ends first, Do stops the copy at the next chunk and
// returns ctx's error; the destination then holds a part of the source. What is
// queued is not stopped. The engine and its device stay usable.
func (e *Engine) Do(ctx context.Context, c Copy) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := e.plan(int64(len(c.Host)), c.ToHost)
	if p.Copiers > 0 && !e.pinner.Pinned(c.Host) {
		if err := e.await(ctx, c.On, c.After); err != nil {
			return err
		}
		err := e.stage(ctx, c, p)
		if !errors.Is(err, device.ErrPinLimit) {
			return err
		}
		if err := e.goPlain(ctx); err != nil {
			return err
		}
	}
	return e.copyPlain(ctx, c)
}

// stage moves c through the copiers.
func (e *Engine) stage(ctx context.Context, c Copy, p staging.Plan) (err error) {
	t := e.begin(linkDirection(c.ToHost), wayStaged, int64(len(c.Host)))
	defer func() { t.end(ctx, int64(len(c.Host)), err) }()
	return e.stager.Copy(ctx, c.staged(), c.Progress, p)
}

// copyPlain leaves c to the driver.
func (e *Engine) copyPlain(ctx context.Context, c Copy) (err error) {
	t := e.begin(linkDirection(c.ToHost), wayPlain, int64(len(c.Host)))
	defer func() { t.end(ctx, int64(len(c.Host)), err) }()
	if c.On != nil {
		return e.queue(c)
	}
	return e.streams.copy(ctx, c)
}

// goPlain is for a copy that could not be staged since nothing can be pinned: from
// now on nothing is staged, which is slower, but works. A limit that is reached as
// ctx ends says nothing about the next copy, because pinned memory that another
// user is about to give back is waited for only as long.
func (e *Engine) goPlain(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.plain.Store(true)
	return nil
}

// Prepare pins the memory for staging now, instead of when the first copy needs
// it, which that copy then does not wait for. Where it cannot be pinned, or the
// device shares the host's memory, nothing is staged; that is no error.
func (e *Engine) Prepare(ctx context.Context) error {
	const large = 1 << 40
	if !e.Stages(large, false) {
		return nil
	}
	err := e.stager.Prepare(ctx)
	if errors.Is(err, device.ErrPinLimit) {
		return e.goPlain(ctx)
	}
	return err
}

// Stages reports whether a copy of n bytes of pageable memory goes through
// copiers, as far as is known before the first one; else the driver copies.
func (e *Engine) Stages(n int64, toHost bool) bool { return e.plan(n, toHost).Copiers > 0 }

// Device returns the device that the engine was made for.
func (e *Engine) Device() device.Device { return e.dev }

// Estimate returns how long the engine's model expects a copy of n bytes of
// pinned, or pageable, memory to take; 0 where nothing was measured.
func (e *Engine) Estimate(n int64, pinned, toHost bool) time.Duration {
	m := e.options.Model
	seconds := 0.0
	switch {
	case m == nil:
	case !pinned && e.choices != nil:
		seconds = m.Seconds(e.choices.At(n, toHost), n, toHost)
	case pinned:
		for _, p := range m.Pinned {
			if p.ToHost == toHost && len(p.Curve) > 1 {
				seconds = p.Curve.At(n)
				break
			}
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// Close waits for copies under way and for queued batches, stops the copiers
// and gives their memory back. Copies that are queued on a caller's stream are
// the stream's and go on. Copies fail with [device.ErrClosed] afterwards; a second Close does
// nothing.
func (e *Engine) Close() error {
	e.closed.Store(true)
	defer live.Remove(e)
	return errors.Join(e.stager.Close(), e.files.Close(), e.streams.close(), e.bridges.close(), e.marks.close(), e.closeKernels())
}

var errClosed = staging.ErrClosed

// staged is what a stager needs to know of c.
func (c *Copy) staged() staging.Copy {
	return staging.Copy{Host: c.Host, Device: c.Device, ToHost: c.ToHost}
}

// plan decides how n bytes of pageable memory are copied.
func (e *Engine) plan(n int64, toHost bool) staging.Plan {
	switch {
	case n == 0 || e.plain.Load():
		return staging.Plan{}
	case e.choices != nil:
		return staging.PlanOf(e.choices.At(n, toHost), n, e.options.SlotBytes)
	case n <= e.options.StageAbove:
		return staging.Plan{}
	}
	return e.stagedPlan(n, toHost)
}

// stagedPlan is the plan for n bytes that have to be staged, where no path is
// measured.
func (e *Engine) stagedPlan(n int64, toHost bool) staging.Plan {
	slot := e.options.SlotBytes
	return staging.PlanOf(linkmodel.RuleOfThumb(n, e.options.Copiers, toHost, slot), n, slot)
}

func (c *Copy) report(done int64) {
	if c.Progress != nil {
		c.Progress(done, int64(len(c.Host)))
	}
}
