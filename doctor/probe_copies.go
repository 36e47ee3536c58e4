package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// Sizes and times of what is measured. All of it takes about three seconds on
// two processors.
const (
	mostCopy    = 256 << 20 // bytes of a copy, less where memory is short
	leastCopy   = 1 << 20
	copyRepeats = 5
	copyTime    = 700 * time.Millisecond // for the repeats of one path, 2 at least
	loadTime    = 400 * time.Millisecond // of copies during which NVML is asked
	mostThreads = 16
)

// copying holds the memory of the probe.
type copying struct {
	dev    device.Device
	stream device.Stream
	n      int64
	mem    device.Ptr
	host   []byte // outside the Go heap, of whole pages
	undo   []func() error
}

func probeCopies(ctx context.Context, req request) (_ any, err error) {
	dev, _, err := openDevice(req.Device)
	if err != nil {
		return nil, err
	}
	c := &copying{dev: dev}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.prepare(); errors.Is(err, sysmem.ErrMemory) || errors.Is(err, device.ErrOutOfMemory) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	facts := copyFacts{Bytes: c.n}
	facts.Threads = threadRates(ctx, c.host, c.n)
	if facts.Pageable, err = c.rates(ctx); err != nil {
		return nil, fmt.Errorf("%w: copies of pageable memory: %w", errBroken, err)
	}
	facts.Staged = know(c.staged(ctx))
	facts.Pin = know(c.pin())
	if facts.Pinned, facts.Loaded, err = c.pinned(ctx, req.PCIBusID); err != nil {
		return nil, fmt.Errorf("%w: copies of pinned memory: %w", errBroken, err)
	}
	return facts, nil
}

func (c *copying) later(undo func() error) { c.undo = append(c.undo, undo) }

func (c *copying) close() error {
	var errs []error
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(append(errs, c.dev.Close())...)
}

// prepare takes memory: of what is free an eighth at most.
func (c *copying) prepare() (err error) {
	memory, err := c.dev.Memory()
	if err != nil {
		return err
	}
	c.n = min(mostCopy, memory.FreeBytes/8)
	if free := sysmem.Available(); free > 0 {
		c.n = min(c.n, free/8)
	}
	c.n = c.n / pagemem.HugePage * pagemem.HugePage
	if c.n < leastCopy {
		return fmt.Errorf("%w to measure: %s free on the device, %s in the host",
			sysmem.ErrMemory, units.Bytes(memory.FreeBytes), units.Bytes(sysmem.Available()))
	}
	if c.stream, err = c.dev.NewStream(); err != nil {
		return err
	}
	c.later(c.stream.Close)
	if c.mem, err = c.dev.Alloc(c.n); err != nil {
		return err
	}
	c.later(func() error { return c.dev.Free(c.mem) })
	if c.host, err = pagemem.Map(c.n); err != nil {
		return err
	}
	c.later(func() error { return pagemem.Unmap(c.host) })
	pagemem.Huge(c.host)
	return pagemem.Populate(c.host, 0)
}

// repeat times do and returns the best rate of n bytes: what is asked is what the
// machine can do, and what others do meanwhile only slows it.
func repeat(ctx context.Context, n int64, do func() error) (float64, error) {
	if err := do(); err != nil { // warms up
		return 0, err
	}
	least := math.Inf(1)
	begin := time.Now()
	for turn := 0; turn < copyRepeats && (turn < 2 || time.Since(begin) < copyTime); turn++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		least = min(least, max(time.Since(start), 1).Seconds())
	}
	return float64(n) / least, nil
}

// rates copies between the device and c.host, as it is.
func (c *copying) rates(ctx context.Context) (r rates, err error) {
	host := c.host[:c.n]
	r.ToDevice, err = repeat(ctx, c.n, func() error {
		return errors.Join(c.stream.CopyH2D(c.mem, host), c.stream.Synchronize())
	})
	if err != nil {
		return r, err
	}
	r.ToHost, err = repeat(ctx, c.n, func() error {
		return errors.Join(c.stream.CopyD2H(host, c.mem), c.stream.Synchronize())
	})
	return r, err
}

// staged copies pageable memory as an engine does that was told nothing.
func (c *copying) staged(ctx context.Context) (s stagedRate, err error) {
	if c.dev.Info().Integrated {
		return s, errors.New("nothing is staged: the device shares the host's memory")
	}
	engine, err := transfer.New(c.dev, transfer.Options{})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	s.Copiers = linkmodel.DefaultCopiers()
	s.Rate, err = repeat(ctx, c.n, func() error { return engine.H2D(ctx, c.mem, c.host[:c.n]) })
	return s, err
}

// pinned page-locks c.host for the copies, and asks NVML meanwhile.
func (c *copying) pinned(ctx context.Context, busID string) (k known[rates], l known[loadFacts], err error) {
	pinner, ok := device.As[device.Pinner](c.dev)
	if !ok {
		k.Reason = "this device pins nothing"
	} else if err := pinner.Pin(c.host, 0); err != nil {
		k.Reason = oneLine(err.Error())
	}
	if k.Reason != "" {
		l.Reason = "nothing was pinned"
		return k, l, nil
	}
	defer func() { err = errors.Join(err, pinner.Unpin(c.host)) }()
	if k.Value, err = c.rates(ctx); err != nil {
		return k, l, err
	}
	l, err = c.loaded(ctx, busID)
	return k, l, err
}

// loaded copies for a while, and asks NVML about the link that is in use.
func (c *copying) loaded(ctx context.Context, busID string) (l known[loadFacts], err error) {
	if busID == "" {
		l.Reason = "the device has no link"
		return l, nil
	}
	gpu, err := nvml.ByBusID(busID)
	if err != nil {
		l.Reason = oneLine(err.Error())
		return l, nil
	}
	stop := make(chan struct{})
	copied := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				copied <- nil
				return
			default:
			}
			if err := errors.Join(c.stream.CopyH2D(c.mem, c.host[:c.n]), c.stream.Synchronize()); err != nil {
				copied <- err
				return
			}
		}
	}()
	always := ^nvml.Reasons(0)
	for begin := time.Now(); time.Since(begin) < loadTime && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		link, err := gpu.Link()
		if err != nil {
			l.Reason = oneLine(err.Error())
			break
		}
		seen := &l.Value.Link
		*seen = nvml.Link{Gen: max(seen.Gen, link.Gen), Width: max(seen.Width, link.Width), MaxGen: link.MaxGen, MaxWidth: link.MaxWidth}
		// While clocks change, at first, the hardware may say that it slows down.
		if reasons, err := gpu.Slowdown(); err != nil {
			always = 0
		} else if time.Since(begin) > loadTime/2 {
			always &= reasons
		}
		l.Value.Clocks, _ = gpu.Clocks()
	}
	if always != ^nvml.Reasons(0) {
		l.Value.Reasons = always
	}
	close(stop)
	return l, <-copied
}

// pin times how long page-locking takes, with huge pages and without, each in new
// memory.
func (c *copying) pin() (facts pinFacts, err error) {
	pinner, ok := device.As[device.Pinner](c.dev)
	if !ok {
		return facts, errors.New("this device pins nothing")
	}
	facts.Bytes = min(c.n, 64<<20)
	one := func(huge bool) (seconds float64, err error) {
		b, err := pagemem.Map(facts.Bytes)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, pagemem.Unmap(b)) }()
		start := time.Now()
		if huge {
			pagemem.Huge(b)
		}
		if err := pagemem.Populate(b, 0); err != nil {
			return 0, err
		}
		if err := pinner.Pin(b, 0); err != nil {
			return 0, err
		}
		seconds = max(time.Since(start), 1).Seconds()
		return seconds, pinner.Unpin(b)
	}
	facts.Huge, facts.Small = math.Inf(1), math.Inf(1)
	for range copyRepeats { // in turn
		huge, err := one(true)
		if err != nil {
			return facts, err
		}
		small, err := one(false)
		if err != nil {
			return facts, err
		}
		facts.Huge, facts.Small = min(facts.Huge, huge), min(facts.Small, small)
	}
	return facts, nil
}

// threadRates copies in host memory: from its first half to the second, by one
// thread and by as many as there are processors.
func threadRates(ctx context.Context, host []byte, n int64) (list []threadRate) {
	half := n / 2
	for _, threads := range []int{1, min(processors(), mostThreads)} {
		if len(list) > 0 && threads == 1 {
			break
		}
		r, err := repeat(ctx, half, func() error {
			var all sync.WaitGroup
			for i := range int64(threads) {
				from, to := half*i/int64(threads), half*(i+1)/int64(threads)
				all.Go(func() { copy(host[half+from:half+to], host[from:to]) })
			}
			all.Wait()
			return nil
		})
		if err != nil {
			break
		}
		list = append(list, threadRate{threads, r})
	}
	return list
}
