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

// Copiers do not wait for memory of the caller's pool that is pending: they are
// fewer. For one there has to be memory; a context ends the wait for it.
func TestCopiersBesidePending(t *testing.T) {
	f := open(t)
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		t.Skip("a stream cannot be held up")
	}
	ring := int64(small.Slots) * small.SlotBytes
	for _, c := range []struct {
		name    string
		pending int64
		err     error
	}{{"room for one", ring, nil}, {"room for none", 2 * ring, context.DeadlineExceeded}} {
		pool := f.Pool(pinned.Options{Budget: 2 * ring, SegmentBytes: ring})
		buffer, err := pool.Alloc(ctx, c.pending)
		f.OK(err)
		s, err := f.Dev.NewStream()
		f.OK(err)
		wait, release := f.Gate()
		f.OK(caller.Call(s, func() error { wait(); return nil }))
		f.OK(buffer.Free(s))
		o := small
		o.Pool = pool
		e, err := transfer.New(f.Dev, o)
		f.OK(err)
		limited, cancel := context.WithTimeout(ctx, hang/2)
		if c.err != nil {
			limited, cancel = context.WithTimeout(ctx, 5*time.Millisecond)
		}
		host := unique(100_000, 1)
		err = f.Within(c.name, func() error { return e.H2D(limited, f.Alloc(100_000), host) })
		cancel()
		if !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
		release()
		f.OK(s.Close())
		f.Works(e)
		f.OK(e.Close())
	}
}

// A prepared engine pins nothing when it copies, and one that cannot pin copies
// without.
func TestPrepare(t *testing.T) {
	f := open(t)
	e := f.Engine(transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	p, data := f.Alloc(100_000), unique(100_000, 1)
	f.OK(e.Prepare(ctx))
	pinned, opened := f.Dev.PinnedNow.Load(), f.Dev.Opened.Load()
	f.OK(e.Prepare(ctx))
	f.OK(e.H2D(ctx, p, data))
	if pinned < 2*2*16<<10 || f.Dev.PinnedNow.Load() != pinned || f.Dev.Opened.Load() != opened {
		t.Errorf("%d bytes were pinned by Prepare, then %d; %d streams and events, then %d", pinned, f.Dev.PinnedNow.Load(), opened, f.Dev.Opened.Load())
	}
	f.OK(e.Close())
	if err := e.Prepare(ctx); !errors.Is(err, device.ErrClosed) {
		t.Errorf("closed: %v", err)
	}

	f.Dev.OnPin(func() error { return device.ErrPinLimit })
	e = f.Engine(transfer.Options{Copiers: 2, StageAbove: 1})
	f.OK(e.Prepare(ctx))
	f.OK(e.H2D(ctx, p, data))
	got := make([]byte, len(data))
	f.OK(e.D2H(ctx, got, p))
	if !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
}
