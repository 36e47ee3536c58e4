package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// What the memory of a cancelled copy holds.
const (
	before  = 0x11 // the destination, before the copy
	sent    = 0x22 // the source
	scribed = 0x33 // the caller's memory, written over after the copy returned
)

// scribbled checks that a copy of which c.Host is the caller's side has let go
// of it: what the caller writes there now neither arrives nor is overwritten.
func (f *fixture) scribbled(c transfer.Copy) {
	f.Helper()
	fill(c.Host, scribed) // with -race, anybody who still uses it is a race
	f.OK(f.Dev.Synchronize())
	if bytes.Count(c.Host, []byte{scribed}) != len(c.Host) {
		f.Error("the caller's memory was written after the copy returned")
	}
	if c.ToHost {
		return
	}
	got := f.Download(make([]byte, len(c.Host)), c.Device)
	if bytes.Count(got, []byte{before})+bytes.Count(got, []byte{sent}) != len(got) {
		f.Error("what the caller wrote after the copy returned arrived")
	}
}

// prepare fills both sides of c.
func (f *fixture) prepare(c transfer.Copy) {
	f.Helper()
	host, dev := byte(sent), byte(before)
	if c.ToHost {
		host, dev = dev, host
	}
	fill(c.Host, host)
	f.Memset(c.Device, dev, int64(len(c.Host)))
}

func TestCancelledBefore(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	for _, n := range []int64{0, 100, 1 << 20} {
		c := transfer.Copy{Host: make([]byte, n), Device: f.Alloc(1 << 20),
			Progress: func(int64, int64) { t.Error("progress of a copy that never began") }}
		for _, c.ToHost = range []bool{false, true} {
			f.prepare(c)
			f.Fails("cancelled", e.Do(ended, c), context.Canceled)
			f.Fails("too late", e.Do(late, c), context.DeadlineExceeded)
			if got := f.Download(make([]byte, n), c.Device); !c.ToHost && bytes.Count(got, []byte{before}) != len(got) {
				t.Errorf("%d bytes: the device's memory changed", n)
			}
			if c.ToHost && bytes.Count(c.Host, []byte{before}) != len(c.Host) {
				t.Errorf("%d bytes: the host's memory changed", n)
			}
		}
	}
	f.Works(e)
}

// A staged copy that is cancelled between its chunks.
func TestCancelledStaged(t *testing.T) {
	const n = 8 << 20 // 1024 chunks, of which a few dozen are taken
	for _, toHost := range []bool{false, true} {
		for _, from := range []string{"progress", "elsewhere"} {
			t.Run(fmt.Sprintf("to host %t, from %s", toHost, from), func(t *testing.T) {
				f := open(t)
				f.NeedsPinned(1 << 18)
				e := f.Engine(small)
				f.Works(e)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				c := transfer.Copy{Host: make([]byte, n), Device: f.Alloc(n), ToHost: toHost}
				f.prepare(c)
				var most int64
				switch from {
				case "progress":
					c.Progress = func(done, _ int64) {
						most = done
						cancel()
					}
				case "elsewhere":
					time.AfterFunc(time.Millisecond, cancel)
				}
				// Once the rings are full the copiers go slowly, so that the
				// context ends long before the copy.
				ring := int64(small.Copiers * small.Slots)
				var copies atomic.Int64
				f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
					if copies.Add(1) > ring {
						<-ctx.Done()
						time.Sleep(time.Millisecond)
					}
					return nil
				})
				f.Fails("Do", f.Within("Do", func() error { return e.Do(ctx, c) }), context.Canceled)
				f.Dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
				if most == n || copies.Load() == n/small.SlotBytes {
					t.Errorf("%d bytes reported, %d chunks taken: the copy was not stopped", most, copies.Load())
				}
				f.scribbled(c)
				f.Works(e)
			})
		}
	}
}

// A straight copy that is cancelled between its parts: it has three, the first
// is reported, the last is not begun.
func TestCancelledStraight(t *testing.T) {
	const n = 128<<20 + 1
	f := open(t)
	e := f.Engine(transfer.Options{StageAbove: n})
	host, p := f.Pages(n), f.Alloc(n)
	for _, toHost := range []bool{false, true} {
		t.Run(fmt.Sprintf("to host %t", toHost), func(t *testing.T) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			c := transfer.Copy{Host: host, Device: p, ToHost: toHost}
			f.prepare(c)
			c.Progress = func(done, _ int64) {
				if ctx.Err() != nil || done == n {
					t.Errorf("%d bytes reported, context error %v", done, ctx.Err())
				}
				cancel()
			}
			f.Fails("Do", f.Within("Do", func() error { return e.Do(ctx, c) }), context.Canceled)
			last := f.Download(make([]byte, 1), p.Add(n-1))[0]
			if toHost {
				last = host[n-1]
			}
			if last != before {
				t.Error("the last part was copied")
			}
			f.scribbled(c)
		})
	}
	f.Works(e)
}

// Cancelling one copy leaves others alone.
func TestCancelledBesideOthers(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	const n = 1 << 20
	stop := make(chan struct{})
	var others []<-chan error
	for i := range 3 {
		p, want, got := f.Alloc(n), unique(n, byte(i)), make([]byte, n)
		others = append(others, async(func() error {
			for {
				if err := errors.Join(e.H2D(ctx, p, want), e.D2H(ctx, got, p)); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return errors.New("wrong content")
				}
				clear(got)
				select {
				case <-stop:
					return nil
				default:
				}
			}
		}))
	}
	for round := range 30 {
		ctx, cancel := context.WithCancel(ctx)
		c := transfer.Copy{Host: make([]byte, n), Device: f.Alloc(n), ToHost: round%2 == 0}
		f.prepare(c)
		c.Progress = func(done, _ int64) {
			if done > int64(round)*n/30 {
				cancel()
			}
		}
		if err := f.Within("Do", func() error { return e.Do(ctx, c) }); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		cancel()
		f.scribbled(c)
		f.OK(f.Dev.Free(c.Device))
	}
	close(stop)
	for _, o := range others {
		f.OK(f.Arrives("a copy beside cancelled ones", o))
	}
}
