package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// goroutine names the goroutine that calls it.
func goroutine() string {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	name, _, _ := bytes.Cut(b, []byte("[")) // "goroutine 7 [running]"
	return string(name)
}

// watched is a copy whose reports are checked: they never go back, never claim
// more than was queued, and come from the goroutine that called Do.
type watched struct {
	transfer.Copy
	f       *fixture
	queued  atomic.Int64
	caller  string
	reports []int64
}

func (f *fixture) watch(c transfer.Copy) *watched {
	w := &watched{Copy: c, f: f}
	f.Dev.OnCopy(func(b []byte, _ device.Ptr, _ bool) error {
		w.queued.Add(int64(len(b)))
		return nil
	})
	w.Progress = func(done, total int64) {
		if g := goroutine(); g != w.caller {
			f.Errorf("progress from %s, Do was called by %s", g, w.caller)
		}
		if total != int64(len(c.Host)) {
			f.Errorf("progress of %d bytes, want %d", total, len(c.Host))
		}
		if n := len(w.reports); n > 0 && done < w.reports[n-1] {
			f.Errorf("progress %d after %d", done, w.reports[n-1])
		}
		if queued := w.queued.Load(); done > queued {
			f.Errorf("progress %d, but only %d bytes were queued", done, queued)
		}
		w.reports = append(w.reports, done)
	}
	return w
}

func (w *watched) do(e *transfer.Engine) error {
	w.f.Helper()
	return w.f.Within("Do", func() error {
		w.caller = goroutine()
		return e.Do(ctx, w.Copy)
	})
}

func (w *watched) last() int64 {
	if len(w.reports) == 0 {
		return -1
	}
	return w.reports[len(w.reports)-1]
}

func TestProgress(t *testing.T) {
	const part = 64 << 20
	for _, c := range []struct {
		name    string
		n       int64
		options transfer.Options
		reports int // at least
	}{
		{"nothing", 0, small, 1},
		{"small", 1000, small, 1},
		{"staged", 3 << 20, small, 1},
		{"staged, one chunk", small.StageAbove + 1, transfer.Options{StageAbove: small.StageAbove, SlotBytes: 1 << 16}, 1},
		{"straight, one part", part, transfer.Options{StageAbove: 1 << 40}, 1},
		{"straight, two parts", part + 1, transfer.Options{StageAbove: 1 << 40}, 2},
		{"straight, three parts", 2*part + 1, transfer.Options{StageAbove: 1 << 40}, 3},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", c.name, toHost), func(t *testing.T) {
				f := open(t)
				e := f.Engine(c.options)
				w := f.watch(transfer.Copy{Host: f.Pages(c.n), Device: f.Alloc(max(c.n, 1)), ToHost: toHost})
				f.OK(w.do(e))
				if w.last() != c.n || len(w.reports) < c.reports {
					t.Errorf("reports %v, want %d at least, up to %d", w.reports, c.reports, c.n)
				}
			})
		}
	}
}

// A staged copy that is slow in its midst has reported what was done till
// then.
func TestProgressMidway(t *testing.T) {
	f := open(t)
	f.NeedsPinned(1 << 18)
	e := f.Engine(small)
	const n = 1 << 20
	w := f.watch(transfer.Copy{Host: make([]byte, n), Device: f.Alloc(n)})
	reported := make(chan struct{})
	report := w.Progress
	w.Progress = func(done, total int64) {
		report(done, total)
		if len(w.reports) == 1 {
			close(reported)
		}
	}
	ring := int64(small.Copiers*small.Slots) * small.SlotBytes
	watch := *f.Dev.Copied.Load()
	f.Dev.OnCopy(func(b []byte, p device.Ptr, toHost bool) error {
		watch(b, p, toHost)
		if w.queued.Load() > ring {
			select {
			case <-reported:
			case <-time.After(time.Millisecond): // the one that reports copies, too
			}
		}
		return nil
	})
	f.OK(w.do(e))
	if len(w.reports) < 2 || w.reports[0] <= 0 || w.reports[0] >= n || w.last() != n {
		t.Errorf("reports %v, want one midway and one at %d", w.reports, n)
	}
}

// A copy that fails never claims bytes that it gave up.
func TestProgressOfFailure(t *testing.T) {
	broken := errors.New("broken on purpose")
	for _, after := range []int64{0, 1, 5, 20, 60} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			f := open(t)
			f.NeedsPinned(1 << 18)
			// One copier: what is queued after the failure is known.
			e := f.Engine(transfer.Options{Copiers: 1, Slots: 4, SlotBytes: 8 << 10, StageAbove: 1})
			const n = 1 << 20
			for range 20 {
				w := f.watch(transfer.Copy{Host: make([]byte, n), Device: f.Alloc(n)})
				watch := *f.Dev.Copied.Load()
				f.Dev.OnCopy(func(b []byte, p device.Ptr, toHost bool) error {
					if w.queued.Load() == after*8<<10 {
						return broken
					}
					return watch(b, p, toHost)
				})
				f.Fails("Do", w.do(e), broken)
				if w.last() > after*8<<10 {
					t.Fatalf("%d chunks were copied before it failed, %v bytes reported", after, w.reports)
				}
				f.OK(f.Dev.Free(w.Device))
			}
		})
	}
}

// A panic in Progress goes to the caller of Do. The copy has then let go of
// the caller's memory as after an error, and the engine goes on.
func TestProgressPanics(t *testing.T) {
	const part = 64 << 20
	for _, path := range []struct {
		name    string
		n       int64
		options transfer.Options
	}{
		{"staged", 4 << 20, small},
		{"straight", 2*part + 1, transfer.Options{StageAbove: 1 << 40}},
	} {
		for _, toHost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, to host %t", path.name, toHost), func(t *testing.T) {
				f := open(t)
				e := f.Engine(path.options)
				f.Works(e)
				host := make([]byte, path.n)
				if path.n > part {
					host = f.Pages(path.n)
				}
				c := transfer.Copy{Host: host, Device: f.Alloc(path.n), ToHost: toHost}
				f.prepare(c)
				c.Progress = func(int64, int64) { panic("on purpose") }
				f.OK(f.Within("Do", func() (err error) {
					defer func() {
						if recover() != "on purpose" {
							err = errors.New("the panic did not arrive")
						}
					}()
					return e.Do(ctx, c)
				}))
				f.scribbled(c)
				f.Works(e)
			})
		}
	}
}
