package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/linger"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/internal/staging"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// Options tune a calibration. The zero value suits most machines.
type Options struct {
	// MaxBytes is the largest copy. Default: 256 MiB, or less where the device
	// or this process may not have four times that.
	MaxBytes int64

	// Repeats of each measurement, of which the median counts. Copies of up to
	// 4 MiB, which vary most, take three times as many, and those of 64 MiB
	// and more half as many. Default: 9.
	Repeats int

	// Progress, if set, is called before each step.
	Progress func(step, steps int, what string)
}

// Sizes are powers of four: a curve needs few points. On the smallest the
// paths differ by less than they vary.
const (
	firstCalibrationSize = 16 << 10
	firstStaged          = 64 << 10
)

// Run measures what the paths of dev cost. Repeats are interleaved: one
// of each path after the other, so that a machine that drifts drifts for all
// of them. It takes about fifteen seconds and up to half a GiB of host memory, and
// the device should have nothing else to do. A device that shares the host's
// memory has no paths to choose from; it fails with [device.ErrNotSupported].
func Run(ctx context.Context, dev device.Device, o Options) (m *linkmodel.Model, err error) {
	_, ok := device.As[device.Pinner](dev)
	if info := dev.Info(); info.Integrated || !ok {
		return nil, fmt.Errorf("transfer: %w: %s has no link to calibrate", device.ErrNotSupported, info.ID)
	}
	if o.MaxBytes < 0 || o.Repeats < 0 {
		return nil, fmt.Errorf("transfer: %w: calibrate with copies of up to %s, %s", device.ErrArgument, units.Bytes(o.MaxBytes), units.Count(o.Repeats, "repeat"))
	}
	if o.Repeats == 0 {
		o.Repeats = 9
	}
	c := &calibration{dev: dev, o: o}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.prepare(); err != nil {
		return nil, err
	}
	m = &linkmodel.Model{Version: linkmodel.Version, Machine: linkmodel.MachineOf(dev), MeasuredAt: time.Now().UTC().Truncate(time.Second)}
	if err := c.paths(ctx, m); err != nil {
		return nil, err
	}
	if err := c.batches(ctx, m); err != nil {
		return nil, err
	}
	return m, nil
}

// LoadOrRun returns the model of dev as [linkmodel.Load] finds it, or measures and
// saves it. measured tells which. A model that cannot be saved is returned
// with the error.
func LoadOrRun(ctx context.Context, dev device.Device, o Options) (m *linkmodel.Model, measured bool, err error) {
	if m, err = linkmodel.Load(dev); err == nil {
		return m, false, nil
	}
	if m, err = Run(ctx, dev, o); err != nil {
		return nil, false, err
	}
	_, err = m.Save(dev)
	return m, true, err
}

// calibration holds the memory of one run.
type calibration struct {
	dev      device.Device
	o        Options
	engine   *transfer.Engine // stages nothing
	stager   *staging.Stager
	pageable []byte
	at       int64 // offset in pageable of the next copy of cold bytes
	cold     bool  // the last copy was one
	pinned   *pinned.Buffer
	device   device.Ptr
	undo     []func() error
}

func (c *calibration) close() error {
	var errs []error
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

func (c *calibration) prepare() error {
	memory, err := c.dev.Memory()
	if err != nil {
		return err
	}
	if c.o.MaxBytes == 0 {
		c.o.MaxBytes = min(256<<20, memory.FreeBytes/4)
		if available := sysmem.Available(); available > 0 {
			c.o.MaxBytes = min(c.o.MaxBytes, available/4)
		}
	}
	c.o.MaxBytes = max(c.o.MaxBytes, 4*firstCalibrationSize)
	if c.engine, err = transfer.New(c.dev, transfer.Options{StageAbove: math.MaxInt64}); err != nil {
		return err
	}
	c.stager = staging.New(staging.Options{
		Device: c.dev, Copiers: linkmodel.DefaultCopiers(), Slots: staging.DefaultSlots, SlotBytes: linkmodel.DefaultSlotBytes,
	})
	c.undo = append(c.undo, c.engine.Close, c.stager.Close)
	if c.device, err = c.dev.Alloc(c.o.MaxBytes); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return c.dev.Free(c.device) })
	if c.pageable, err = pagemem.Map(c.o.MaxBytes); err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return pagemem.Unmap(c.pageable) })
	if err := pagemem.Populate(c.pageable, 0); err != nil {
		return err
	}
	pool, err := pinned.NewPool(c.dev, pinned.Options{Budget: pagemem.RoundUp(c.o.MaxBytes), Flags: device.PinMapped})
	if err != nil {
		return err
	}
	c.undo = append(c.undo, pool.Close)
	c.pinned, err = pool.Alloc(context.Background(), c.o.MaxBytes)
	if errors.Is(err, device.ErrPinLimit) || errors.Is(err, pinned.ErrBudget) {
		return fmt.Errorf("transfer: calibrate: %w", err)
	}
	if err != nil {
		return err
	}
	c.undo = append(c.undo, func() error { return c.pinned.Free() })
	return nil
}

// next is a copy of n bytes of pageable memory: by turns of bytes that were
// copied a moment before, and may lie in a near cache, and of others. They
// differ by as much as the paths do, and programs have both.
func (c *calibration) next(n int64, toHost bool) staging.Copy {
	var at int64
	if c.cold = !c.cold; c.cold {
		if c.at+n > int64(len(c.pageable)) {
			c.at = 0
		}
		at = c.at
		c.at += n
	}
	return staging.Copy{Host: c.pageable[at:][:n], Device: c.device, ToHost: toHost}
}

// trial is one path at one size.
type trial struct {
	path  *linkmodel.Path
	bytes int64
	run   func(ctx context.Context) error
	last  float64   // seconds of a copy, the last time it was timed
	times []float64 // those that count
}

// paths measures copies of pageable memory by all plans, and of pinned memory.
func (c *calibration) paths(ctx context.Context, m *linkmodel.Model) error {
	var trials []*trial
	most := linkmodel.DefaultCopiers()
	for _, toHost := range []bool{false, true} {
		plain := &linkmodel.Path{Path: "plain", ToHost: toHost}
		straight := &linkmodel.Path{Path: "pinned", ToHost: toHost}
		var staged []*linkmodel.Path
		for _, copiers := range copierCounts(most) {
			for _, past := range []bool{false, true} {
				staged = append(staged, &linkmodel.Path{Path: "staged", ToHost: toHost, Copiers: copiers, PastCaches: past})
			}
		}
		for n := int64(firstCalibrationSize); n <= c.o.MaxBytes; n *= 4 {
			trials = append(trials, &trial{path: plain, bytes: n, run: func(ctx context.Context) error {
				k := c.next(n, toHost)
				return c.engine.Do(ctx, transfer.Copy{Host: k.Host, Device: k.Device, ToHost: k.ToHost})
			}})
			fast := transfer.Copy{Host: c.pinned.Bytes()[:n], Device: c.device, ToHost: toHost}
			trials = append(trials, &trial{path: straight, bytes: n, run: func(ctx context.Context) error {
				return c.engine.Do(ctx, fast)
			}})
			for _, p := range staged {
				pl := staging.PlanOf(linkmodel.Staging{Copiers: p.Copiers, PastCaches: p.PastCaches}, n, linkmodel.DefaultSlotBytes)
				if n < firstStaged || int64(p.Copiers-1)*pl.Least >= n {
					continue // some of the copiers would have nothing to do
				}
				trials = append(trials, &trial{path: p, bytes: n, run: func(ctx context.Context) error {
					return c.stager.Copy(ctx, c.next(n, toHost), nil, pl)
				}})
			}
		}
	}
	if err := c.run(ctx, trials); err != nil {
		return err
	}
	// The fastest of many owes a part of its time to luck.
	if err := c.run(ctx, contenders(trials)); err != nil {
		return err
	}
	var seen []*linkmodel.Path
	for _, t := range trials {
		if !slices.Contains(seen, t.path) {
			seen = append(seen, t.path)
		}
		t.path.Curve = append(t.path.Curve, linkmodel.Point{Bytes: t.bytes, Seconds: stats.Median(t.times)})
	}
	slices.SortStableFunc(seen, func(a, b *linkmodel.Path) int { return a.Copiers - b.Copiers })
	for _, p := range seen {
		if p.Path == "pinned" {
			m.Pinned = append(m.Pinned, *p)
		} else {
			m.Paths = append(m.Paths, *p)
		}
	}
	return nil
}

// contenders are the copies of pageable memory that may be the fastest of their
// size and direction, where there are several.
func contenders(trials []*trial) (list []*trial) {
	type race struct {
		bytes  int64
		toHost bool
	}
	races := map[race][]*trial{}
	for _, t := range trials {
		if t.path.Path != "pinned" {
			r := race{t.bytes, t.path.ToHost}
			races[r] = append(races[r], t)
		}
	}
	for _, t := range trials {
		rivals := races[race{t.bytes, t.path.ToHost}]
		if len(rivals) < 2 || t.path.Path == "pinned" {
			continue
		}
		best := slices.MinFunc(rivals, func(a, b *trial) int { return cmp.Compare(stats.Median(a.times), stats.Median(b.times)) })
		if stats.Median(t.times) < 1.1*stats.Median(best.times) {
			list = append(list, t)
		}
	}
	return list
}

// copierCounts lists the numbers of copiers worth trying, up to most.
func copierCounts(most int) []int {
	var list []int
	for _, n := range []int{1, 2, 4, 8, 12, 16, 24, 32} {
		if n < most {
			list = append(list, n)
		}
	}
	return append(list, most)
}

// sampleSeconds is how long one repeat of a measurement takes at least: short
// copies are repeated for as long.
const sampleSeconds = 1e-3

// run times all trials in turn.
func (c *calibration) run(ctx context.Context, trials []*trial) error {
	step, steps := 0, 0
	for _, t := range trials {
		steps += t.repeats(c.o.Repeats) + 1
	}
	for repeat := range 3*c.o.Repeats + 1 { // the first warms up and counts rounds
		for _, t := range trials {
			if repeat > t.repeats(c.o.Repeats) {
				continue
			}
			if c.o.Progress != nil {
				c.o.Progress(step, steps, t.path.Path+" "+units.Bytes(t.bytes))
			}
			step++
			if err := t.time(ctx); err != nil {
				return fmt.Errorf("transfer: calibrate: %s, %s: %w", t.path.Path, units.Bytes(t.bytes), err)
			}
			if repeat > 0 {
				t.times = append(t.times, t.last)
			}
		}
	}
	return nil
}

// repeats is how often t is timed when n is what was asked for.
func (t *trial) repeats(n int) int {
	switch {
	case t.bytes <= 4<<20:
		return 3 * n
	case t.bytes >= 64<<20:
		return (n + 1) / 2
	}
	return n
}

// time runs one repeat. The rounds of the one before say how many fit.
func (t *trial) time(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // short copies do not look
	}
	rounds := 1
	if t.last > 0 {
		rounds = min(max(int(sampleSeconds/t.last), 1), 64)
		rounds += rounds & 1 // as many cold copies as others
	}
	time.Sleep(2 * linger.Time) // else helpers that the trial before woke would help with this one
	start := time.Now()
	for range rounds {
		if err := t.run(ctx); err != nil {
			return err
		}
	}
	// A coarse clock may see no time pass.
	elapsed := max(time.Since(start), time.Nanosecond)
	t.last = elapsed.Seconds() / float64(rounds)
	return nil
}
