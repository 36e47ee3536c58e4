package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// A copy that finds the only ring in use gets it when the other copy is done.
func TestOneRingForTwo(t *testing.T) {
	for _, progress := range []bool{false, true} {
		t.Run(fmt.Sprintf("progress %t", progress), func(t *testing.T) {
			f := open(t)
			e := f.Engine(transfer.Options{Copiers: 1, Slots: 1, SlotBytes: 8 << 10, StageAbove: 1})
			const n = 100_000
			wait, release := f.Gate()
			began := make(chan struct{}, 1000)
			f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
				began <- struct{}{}
				wait()
				return nil
			})
			var done []<-chan error
			for range 4 {
				c := transfer.Copy{Host: make([]byte, n), Device: f.Alloc(n)}
				if progress {
					c.Progress = func(int64, int64) {}
				}
				done = append(done, async(func() error { return e.Do(ctx, c) }))
				if len(done) == 1 {
					<-began // it has the ring
				}
			}
			time.Sleep(5 * time.Millisecond) // for the others to find none
			release()
			for _, d := range done {
				f.OK(f.Arrives("a copy beside another", d))
			}
		})
	}
}

// Progress may copy by the same engine, however few copiers it has.
func TestProgressCopies(t *testing.T) {
	for _, copiers := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(copiers), func(t *testing.T) {
			f := open(t)
			e := f.Engine(transfer.Options{Copiers: copiers, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1})
			const n = 300_000
			// As many as there are copiers, and more, do so at once.
			var inside sync.WaitGroup
			inside.Add(copiers + 2)
			var done []<-chan error
			for i := range copiers + 2 {
				p, q := f.Alloc(n), f.Alloc(n)
				first := true
				c := transfer.Copy{Host: unique(n, byte(i)), Device: p}
				var nested error
				c.Progress = func(int64, int64) {
					if !first {
						return
					}
					first = false
					inside.Done()
					inside.Wait()
					got := make([]byte, n)
					nested = errors.Join(e.H2D(ctx, q, c.Host), e.D2H(ctx, got, q))
					if nested == nil && !bytes.Equal(got, c.Host) {
						nested = errors.New("wrong content")
					}
				}
				done = append(done, async(func() error { return errors.Join(e.Do(ctx, c), nested) }))
			}
			for _, d := range done {
				f.OK(f.Arrives("a copy whose progress copies", d))
			}
		})
	}
}

// Every copy with enough chunks gets every copier, however long they have been
// idle: no wake-up is lost. Each round holds its copies up until all copiers
// are in the midst of one.
func TestAllCopiersJoin(t *testing.T) {
	const copiers, n, rounds = 3, 1 << 20, 150
	f := open(t)
	f.NeedsPinned(1 << 18)
	e := f.Engine(transfer.Options{Copiers: copiers, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1})
	p, host := f.Alloc(n), make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		var inside atomic.Int64
		wait, open := f.Gate()
		f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
			if inside.Add(1) == copiers {
				open()
			}
			wait()
			return nil
		})
		c := transfer.Copy{Host: host, Device: p, ToHost: round%2 == 0}
		if round%3 == 0 {
			c.Progress = func(int64, int64) {}
		}
		done := async(func() error { return e.Do(ctx, c) })
		select {
		case err := <-done:
			f.OK(err)
		case <-time.After(hang):
			t.Errorf("round %d: %d copiers of %d joined", round, inside.Load(), copiers)
			open() // let it end
			f.OK(f.Arrives("the copy", done))
			return
		}
		// Copiers stay awake for a moment, then sleep: try all of that.
		time.Sleep(time.Duration(r.IntN(150)) * time.Microsecond)
	}
}

// A small copy beside a large one, again and again, on engines with hardly any
// copiers: all of them end, with cancellations and a Close at random points.
func TestStagerStress(t *testing.T) {
	for _, o := range []transfer.Options{
		{Copiers: 1, Slots: 1, SlotBytes: 8 << 10, StageAbove: 1},
		{Copiers: 2, Slots: 1, SlotBytes: 8 << 10, StageAbove: 1},
		{Copiers: 1, Slots: 3, SlotBytes: 4 << 10, StageAbove: 5000},
		{Copiers: 3, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%d copiers, %d slots, seed %d", o.Copiers, o.Slots, seed), func(t *testing.T) {
				stress(t, o, seed)
			})
		}
	}
}

func stress(t *testing.T, o transfer.Options, seed uint64) {
	const workers, region, rounds = 6, 100_000, 40
	f := open(t)
	dev := f.Full()
	e, err := transfer.New(dev, o)
	f.OK(err)
	broken := errors.New("broken on purpose")
	var copies atomic.Uint64
	f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
		if copies.Add(1)%997 == 0 {
			return broken
		}
		return nil
	})
	random := rand.New(rand.NewPCG(seed, 99))
	closeAfter := 1 + random.IntN(2*workers*rounds) // or not at all
	var operations atomic.Int64
	closing := sync.OnceValue(e.Close)
	var all []<-chan error
	for i := range int64(workers) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		p, q := f.Alloc(region), f.Alloc(region)
		f.Memset(p, 0, region)
		f.Memset(q, 0, region)
		w := &stressed{Rand: r, engine: e, a: p, b: q, wantA: make([]byte, region), wantB: make([]byte, region)}
		all = append(all, async(func() error {
			for range rounds {
				if operations.Add(1) == int64(closeAfter) {
					go closing()
				}
				err := w.operation()
				switch {
				case errors.Is(err, broken):
				case errors.Is(err, device.ErrClosed) && operations.Load() >= int64(closeAfter):
					return nil
				case err != nil:
					return fmt.Errorf("worker %d: %w", i, err)
				}
			}
			return nil
		}))
	}
	for _, done := range all {
		if err := f.Arrives("random copies", done); err != nil {
			t.Error(err)
		}
	}
	f.OK(f.Within("Close", closing))
	f.Fails("a copy after Close", e.H2D(ctx, 0, make([]byte, region)), device.ErrClosed)
}

// stressed does random copies, batches and boxes in two regions of its own.
// Bytes that a copy which failed may have left are not known: it reads them.
type stressed struct {
	*rand.Rand
	engine       *transfer.Engine
	a, b         device.Ptr
	wantA, wantB []byte
}

func (w *stressed) operation() (err error) {
	n := int64(len(w.wantA))
	p, want := w.a, w.wantA
	if w.IntN(2) == 0 {
		p, want = w.b, w.wantB
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var progress func(done, total int64)
	var last int64
	var wrong error
	if w.IntN(2) == 0 {
		after, cancels := w.Int64N(n), w.IntN(3) == 0
		progress = func(done, total int64) {
			if done < last || done > total {
				wrong = fmt.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
			if cancels && done >= after {
				cancel()
			}
		}
	}
	if w.IntN(5) == 0 {
		timer := time.AfterFunc(time.Duration(w.IntN(300))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	host := make([]byte, n)
	toHost := w.IntN(2) == 0
	if !toHost {
		w.fill(host)
	}
	var blocks []transfer.Block
	switch w.IntN(3) {
	case 0:
		at := w.Int64N(n)
		blocks = []transfer.Block{{Dst: at, Src: at, Bytes: 1 + w.Int64N(n-at)}}
		k := blocks[0]
		err = w.engine.Do(ctx, transfer.Copy{Host: host[at : at+k.Bytes], Device: p.Add(at), ToHost: toHost, Progress: progress})
	case 1:
		blocks = randomBlocks(w.Rand, n, []int64{1, 4, 16}[w.IntN(3)], 1+w.IntN(300))
		b := transfer.Batch{Dst: transfer.Device(p, n), Src: transfer.Host(host), Blocks: blocks, Progress: progress}
		if toHost {
			b.Dst, b.Src = b.Src, b.Dst
		}
		err = w.engine.Batch(ctx, b)
	default:
		row, rows := 1+w.Int64N(400), 1+w.Int64N(50)
		b := transfer.Box{Dst: transfer.Device(p, n), Src: transfer.Host(host), Progress: progress,
			RowBytes: row, Rows: rows, DstRowStride: row + w.Int64N(200), SrcRowStride: row + w.Int64N(200)}
		if toHost {
			b.Dst, b.Src = b.Src, b.Dst
		}
		for i := range rows {
			blocks = append(blocks, transfer.Block{Dst: i * b.DstRowStride, Src: i * b.SrcRowStride, Bytes: row})
		}
		err = w.engine.Box(ctx, b)
	}
	if wrong != nil {
		return wrong
	}
	if err == nil {
		for _, k := range blocks {
			if toHost && !bytes.Equal(host[k.Dst:k.Dst+k.Bytes], want[k.Src:k.Src+k.Bytes]) {
				return fmt.Errorf("wrong content from %d of %d blocks, to host %t", len(blocks), len(want), toHost)
			}
			if !toHost {
				copy(want[k.Dst:k.Dst+k.Bytes], host[k.Src:])
			}
		}
		return nil
	}
	fill(host, scribed) // with -race, a copier that still uses it is a race
	if !toHost && !errors.Is(err, device.ErrClosed) {
		if read := w.read(p, want); read != nil {
			return read
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// read learns what the region holds. The test's own failures do not matter
// here, so it tries until a copy gets through.
func (w *stressed) read(p device.Ptr, want []byte) error {
	for {
		err := w.engine.D2H(ctx, want, p)
		if err == nil {
			if bytes.Contains(want, bytes.Repeat([]byte{scribed}, 64)) {
				return errors.New("what was written after a copy returned arrived")
			}
			return nil
		}
		if errors.Is(err, device.ErrClosed) {
			return err
		}
	}
}

func (w *stressed) fill(b []byte) {
	seed := [32]byte{byte(w.Uint32()), byte(w.Uint32())}
	rand.NewChaCha8(seed).Read(b)
}

// scattered is a batch of pageable rows that takes a list and kernels.
func (f *fixture) scattered(p device.Ptr, n int64, toHost bool) (b transfer.Batch, want func() error) {
	f.Helper()
	host := unique(n, 5)
	on := unique(n, 6)
	f.OK(errors.Join(f.Stream.CopyH2D(p, on), f.Stream.Synchronize()))
	b = transfer.Batch{Dst: transfer.Device(p, n), Src: transfer.Host(host)}
	src, dst := bytes.Clone(host), bytes.Clone(on)
	if toHost {
		b.Dst, b.Src = b.Src, b.Dst
		src, dst = dst, src
	}
	for at := int64(0); at+256 <= n; at += 512 {
		b.Blocks = append(b.Blocks, transfer.Block{Dst: at, Src: n - 256 - at, Bytes: 256})
		copy(dst[at:at+256], src[n-256-at:])
	}
	return b, func() error {
		got := host
		if !toHost {
			got = f.Download(make([]byte, n), p)
		}
		if !bytes.Equal(got, dst) {
			return errors.New("wrong content")
		}
		return nil
	}
}

var rowsOptions = transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1}

// Rows of pageable memory arrive whatever the device lacks: kernels, the
// mapping of pinned memory, or pinned memory altogether.
func TestRowsFallBack(t *testing.T) {
	const n = 256 << 10
	for _, c := range []struct {
		name  string
		open  func(f *fixture) (device.Device, transfer.Options)
		calls bool // kernels move them
	}{
		{"nothing lacks", func(f *fixture) (device.Device, transfer.Options) { return f.Full(), rowsOptions }, true},
		{"no kernels", func(f *fixture) (device.Device, transfer.Options) { f.Full(); return f.Dev, rowsOptions }, false},
		{"a pool that is not mapped", func(f *fixture) (device.Device, transfer.Options) {
			dev := f.Full()
			dev.Unmapped.Store(true)
			o := rowsOptions
			o.Pool = f.Pool(pinned.Options{Budget: 1 << 20})
			return dev, o
		}, false},
		{"a pageable pool", func(f *fixture) (device.Device, transfer.Options) {
			f.Dev.OnPin(func() error { return device.ErrPinLimit })
			o := rowsOptions
			o.Pool = f.Pool(pinned.Options{Budget: 1 << 20, AllowPageable: true})
			return f.Full(), o
		}, false},
		{"no pinned memory", func(f *fixture) (device.Device, transfer.Options) {
			f.Dev.OnPin(func() error { return device.ErrPinLimit })
			return f.Full(), rowsOptions
		}, false},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				f := open(t)
				f.NeedsPinned(1 << 18)
				dev, o := c.open(f)
				var calls atomic.Int64
				if d, ok := dev.(*full); ok {
					d.OnCall(func() error { calls.Add(1); return nil })
				}
				e := f.EngineOn(dev, o)
				b, check := f.scattered(f.Alloc(n), n, toHost)
				for range 2 {
					f.OK(f.Within("Batch", func() error { return e.Batch(ctx, b) }))
					f.OK(check())
				}
				if (calls.Load() > 0) != c.calls {
					t.Errorf("%d calls of kernels", calls.Load())
				}
			})
		}
	}
}

// A batch that fails in its midst, by whatever call, is over when it returns,
// and the next one works: nothing of it stays in the rings.
func TestRowsFail(t *testing.T) {
	const n = 256 << 10
	broken := errors.New("broken on purpose")
	for _, c := range []struct {
		name string
		set  func(d *full, b *transfer.Batch, toHost bool)
		want error
	}{
		{"kernels", func(d *full, _ *transfer.Batch, _ bool) {
			var calls atomic.Int64
			d.OnCall(func() error {
				if calls.Add(1) == 3 {
					return broken
				}
				return nil
			})
		}, broken},
		{"copies", func(d *full, b *transfer.Batch, _ bool) {
			for i := range b.Blocks { // three rows in a chunk: no kernels
				b.Blocks[i].Bytes = 1
			}
			b.Blocks = b.Blocks[:3]
			var copies atomic.Int64
			d.OnCopy(func([]byte, device.Ptr, bool) error {
				if copies.Add(1) == 2 {
					return broken
				}
				return nil
			})
		}, broken},
		{"nowhere", func(_ *full, b *transfer.Batch, toHost bool) {
			if toHost {
				b.Src = transfer.Device(nowhere, n)
			} else {
				b.Dst = transfer.Device(nowhere, n)
			}
		}, device.ErrPointer},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				f := open(t)
				f.NeedsPinned(1 << 18)
				dev := f.Full()
				e := f.EngineOn(dev, rowsOptions)
				good, check := f.scattered(f.Alloc(n), n, toHost)
				for range 3 {
					bad, _ := f.scattered(f.Alloc(n), n, toHost)
					bad.Progress = func(done, total int64) {
						if done == total {
							t.Error("a batch that fails was reported as done")
						}
					}
					c.set(dev, &bad, toHost)
					err := f.Within("Batch", func() error { return e.Batch(ctx, bad) })
					f.Fails("Batch", err, c.want)
					dev.OnCall(func() error { return nil })
					dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
					for range 2 {
						f.OK(f.Within("the next", func() error { return e.Batch(ctx, good) }))
						f.OK(check())
						f.Works(e)
					}
				}
			})
		}
	}
}

// Close waits for a batch under way, which ends well.
func TestCloseDuringBatch(t *testing.T) {
	const n = 256 << 10
	for _, toHost := range []bool{false, true} {
		f := open(t)
		f.NeedsPinned(1 << 18)
		dev := f.Full()
		e := f.EngineOn(dev, rowsOptions)
		b, check := f.scattered(f.Alloc(n), n, toHost)
		wait, release := f.Gate()
		began := make(chan struct{}, 10_000)
		dev.OnCall(func() error {
			began <- struct{}{}
			wait()
			return nil
		})
		done := async(func() error { return e.Batch(ctx, b) })
		select {
		case <-began:
		case err := <-done:
			t.Fatalf("no kernel was called (%v)", err)
		}
		closed := async(e.Close)
		select {
		case err := <-closed:
			t.Fatalf("Close returned (%v) with a batch under way", err)
		case <-time.After(20 * time.Millisecond):
		}
		release()
		f.OK(f.Arrives("the batch", done))
		f.OK(f.Arrives("Close", closed))
		f.OK(check())
		f.Fails("a batch after Close", e.Batch(ctx, b), device.ErrClosed)
	}
}

// Whatever a model says, a copy of nothing ends.
func TestNothingByModel(t *testing.T) {
	f := open(t)
	m := &linkmodel.Model{}
	for _, toHost := range []bool{false, true} {
		m.Paths = append(m.Paths, linkmodel.Path{Path: "staged", ToHost: toHost, Copiers: 1,
			Curve: linkmodel.Curve{{Bytes: 1, Seconds: 1e-9}, {Bytes: 2, Seconds: 2e-9}}})
	}
	e := f.Engine(transfer.Options{Model: m, Copiers: 2, Slots: 1, SlotBytes: 8 << 10})
	p := f.Alloc(1)
	for range 3 {
		f.OK(f.Within("H2D of nothing", func() error { return e.H2D(ctx, p, nil) }))
		f.OK(f.Within("D2H of nothing", func() error { return e.D2H(ctx, []byte{}, p) }))
		f.Works(e)
	}
}
