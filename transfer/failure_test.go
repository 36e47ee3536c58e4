package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

func TestBadPointer(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	for _, n := range []int64{1, small.StageAbove, small.StageAbove + 1, 1 << 20} {
		for _, toHost := range []bool{false, true} {
			host := bytes.Repeat([]byte{before}, int(n))
			err := f.Within("Do", func() error {
				return e.Do(ctx, transfer.Copy{Host: host, Device: nowhere, ToHost: toHost})
			})
			f.Fails(fmt.Sprintf("%d bytes, to host %t", n, toHost), err, device.ErrPointer)
			if bytes.Count(host, []byte{before}) != len(host) {
				t.Errorf("%d bytes, to host %t: the host's memory changed", n, toHost)
			}
			f.Works(e)
		}
	}
}

// A copy that leaves its allocation midway fails, and what it began is over
// when it returns. Only devices that know where memory ends are asked.
func TestPointerOutside(t *testing.T) {
	f := open(t)
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		t.Skip("a stray address may hit a neighbour")
	}
	e := f.Engine(small)
	const n = 1 << 20
	for _, toHost := range []bool{false, true} {
		// Allocations may lie side by side, and a chunk that hits a neighbour
		// hits live memory: the last of them it is.
		end := f.Alloc(n).Add(n)
		for _, err := caller.Bytes(end, 1); err == nil; _, err = caller.Bytes(end, 1) {
			end++
		}
		c := transfer.Copy{Host: make([]byte, 2*n), Device: end.Add(-n), ToHost: toHost}
		f.Fails("Do", f.Within("Do", func() error { return e.Do(ctx, c) }), device.ErrPointer)
		fill(c.Host, scribed) // with -race, anybody who still uses it is a race
		f.OK(f.Dev.Synchronize())
		if bytes.Count(c.Host, []byte{scribed}) != len(c.Host) {
			t.Error("the caller's memory was written after the copy returned")
		}
		f.Works(e)
	}
}

// Copies that fail leave others alone, though they share copiers, rings and
// streams.
func TestFailureBesideOthers(t *testing.T) {
	f := open(t)
	e := f.Engine(transfer.Options{Copiers: 2, Slots: 3, SlotBytes: 8 << 10, StageAbove: 16 << 10})
	const n, rounds = 1 << 20, 30
	var good []<-chan error
	for i := range 3 {
		p := f.Alloc(n)
		good = append(good, async(func() error {
			got := make([]byte, n)
			for round := range rounds {
				want := unique(n, byte(i*rounds+round))
				if err := errors.Join(e.H2D(ctx, p, want), e.D2H(ctx, got, p)); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("round %d: wrong content", round)
				}
			}
			return nil
		}))
	}
	stop := make(chan struct{})
	bad := async(func() error {
		host := make([]byte, n)
		for i := 0; ; i++ {
			size := n
			if i%3 == 0 {
				size = 100
			}
			if err := e.Do(ctx, transfer.Copy{Host: host[:size], Device: nowhere, ToHost: i%2 == 0}); !errors.Is(err, device.ErrPointer) {
				return fmt.Errorf("a copy of nowhere: %v", err)
			}
			select {
			case <-stop:
				return nil
			default:
			}
		}
	})
	for _, g := range good {
		f.OK(f.Arrives("a copy beside ones that fail", g))
	}
	close(stop)
	f.OK(f.Arrives("a copy that fails", bad))
}

// Streams and events that cannot be made fail the copy that needs them and
// leave nothing behind; the next copy tries again.
func TestMakingFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	for _, path := range []struct {
		name string
		n    int64
	}{{"straight", 1000}, {"staged", 1 << 20}} {
		t.Run(path.name, func(t *testing.T) {
			f := open(t)
			p, host := f.Alloc(path.n), make([]byte, path.n)
			for fail := int64(0); ; fail++ {
				e, err := transfer.New(f.Dev, small)
				f.OK(err)
				var made atomic.Int64
				f.Dev.OnMake(func() error {
					if made.Add(1) == fail+1 {
						return broken
					}
					return nil
				})
				err = f.Within("H2D", func() error { return e.H2D(ctx, p, host) })
				if made.Load() <= fail { // all of them were made
					f.OK(err)
					f.OK(e.Close())
					if fail < 3 {
						t.Errorf("%d streams and events were made, want more", fail)
					}
					return
				}
				f.Fails("H2D", err, broken)
				if opened, pinned := f.Dev.Opened.Load(), f.Dev.PinnedNow.Load(); opened != 0 || pinned != 0 {
					t.Fatalf("making number %d failed: %d streams and events open, %d bytes pinned", fail, opened, pinned)
				}
				f.Works(e)
				f.OK(e.Close())
			}
		})
	}
}

// Where the system refuses to page-lock, copies take the plain way.
func TestPinLimit(t *testing.T) {
	for allowed := range int64(small.Copiers) {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			f := open(t)
			var pins atomic.Int64
			f.Dev.OnPin(func() error {
				if pins.Add(1) > allowed {
					return device.ErrPinLimit
				}
				return nil
			})
			e := f.Engine(small)
			f.Works(e)
			w := f.watch(transfer.Copy{Host: make([]byte, 1<<20), Device: f.Alloc(1 << 20)})
			f.OK(w.do(e))
			if w.last() != 1<<20 {
				t.Errorf("reports %v", w.reports)
			}
		})
	}
}

// A limit that is met as the context ends is the end of that copy alone: the
// next one is staged.
func TestPinLimitAsContextEnds(t *testing.T) {
	const n = 1 << 18
	for name, do := range map[string]func(ctx context.Context, f *fixture, e *transfer.Engine) error{
		"copy": func(ctx context.Context, f *fixture, e *transfer.Engine) error {
			return e.H2D(ctx, f.Alloc(n), make([]byte, n))
		},
		"batch": func(ctx context.Context, f *fixture, e *transfer.Engine) error {
			b, _ := f.scattered(f.Alloc(n), n, false)
			return e.Batch(ctx, b)
		},
		"file": func(ctx context.Context, f *fixture, e *transfer.Engine) error {
			_, err := e.ReadFile(ctx, transfer.FileCopy{File: f.NewFile(t.TempDir(), unique(n, 1)), Device: f.Alloc(n), Bytes: n, Path: transfer.FileCached})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			f.NeedsPinned(1 << 20)
			e := f.Engine(transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1000})
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var pins atomic.Int64
			f.Dev.OnPin(func() error { pins.Add(1); cancel(); return device.ErrPinLimit })
			f.Fails("the copy", do(ctx, f, e), context.Canceled)
			if pins.Load() == 0 {
				t.Fatal("nothing was to be pinned")
			}
			f.Dev.OnPin(func() error { return nil })
			if !e.Stages(n, false) {
				t.Error("nothing is staged any more")
			}
			f.Works(e)
		})
	}
}

// An engine whose device was closed gives errors.
func TestDeviceClosed(t *testing.T) {
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("used %t", used), func(t *testing.T) {
			f := open(t)
			e, err := transfer.New(f.Dev, small)
			f.OK(err)
			if used {
				f.Works(e)
			}
			p := f.Alloc(1 << 20)
			f.OK(f.Within("device close", f.Dev.Close))
			for _, n := range []int64{100, 1 << 20} {
				for _, toHost := range []bool{false, true} {
					err := f.Within("Do", func() error {
						return e.Do(ctx, transfer.Copy{Host: make([]byte, n), Device: p, ToHost: toHost})
					})
					f.Fails(fmt.Sprintf("%d bytes", n), err, device.ErrClosed)
				}
			}
			// The memory of the rings went with the device: Close may say so.
			if err := f.Within("Close", e.Close); err != nil && !errors.Is(err, device.ErrClosed) {
				t.Error(err)
			}
			f.OK(f.Within("Close again", e.Close))
			f.Fails("a copy after Close", e.H2D(ctx, p, make([]byte, 1<<20)), device.ErrClosed)
		})
	}
}

// A device that is closed under copies ends them, and their memory is the
// caller's again.
func TestDeviceClosedUnderCopies(t *testing.T) {
	f := open(t)
	e, err := transfer.New(f.Dev, small)
	f.OK(err)
	const n = 1 << 20
	f.Works(e)
	var done []<-chan error
	var hosts [][]byte
	began := make(chan struct{}, 100)
	for i := range 4 {
		size := n
		if i == 3 {
			size = 10_000
		}
		c := transfer.Copy{Host: make([]byte, size), Device: f.Alloc(n), ToHost: i%2 == 0}
		hosts = append(hosts, c.Host)
		done = append(done, async(func() error {
			for {
				if err := e.Do(ctx, c); err != nil {
					return err
				}
				select {
				case began <- struct{}{}:
				default:
				}
			}
		}))
	}
	for range 10 {
		<-began
	}
	f.OK(f.Within("device close", f.Dev.Close))
	for _, d := range done {
		f.Fails("a copy", f.Arrives("a copy on a device that is closed", d), device.ErrClosed)
	}
	for _, b := range hosts {
		clear(b) // with -race, anybody who still uses it is a race
	}
	if err := f.Within("Close", e.Close); err != nil && !errors.Is(err, device.ErrClosed) {
		t.Error(err)
	}
}
