package transfer_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

func TestCloseUnused(t *testing.T) {
	f := open(t)
	e, err := transfer.New(f.Dev, transfer.Options{})
	f.OK(err)
	for range 2 {
		f.OK(f.Within("Close", e.Close))
	}
	for _, n := range []int64{0, 1, 8 << 20} {
		f.Fails("H2D", e.H2D(ctx, 0, make([]byte, n)), device.ErrClosed)
		f.Fails("D2H", e.D2H(ctx, make([]byte, n), 0), device.ErrClosed)
	}
}

// Close waits for a copy under way, which ends well; later ones fail. What the
// engine took is given back.
func TestCloseWaits(t *testing.T) {
	for _, path := range []struct {
		name string
		n    int64
	}{{"straight", small.StageAbove}, {"staged", 1 << 20}} {
		t.Run(path.name, func(t *testing.T) {
			f := open(t)
			pool := f.Pool(pinned.Options{Budget: 1 << 20, SegmentBytes: 64 << 10})
			o := small
			o.Pool = pool
			e := f.Engine(o)
			n := path.n
			p, want := f.Alloc(n), unique(n, 7)
			wait, release := f.Gate()
			began := make(chan struct{}, 1000)
			f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
				began <- struct{}{}
				wait()
				return nil
			})
			copied := async(func() error { return e.H2D(ctx, p, want) })
			<-began
			closed := async(e.Close)
			// A copy that begins while Close waits fails; one that begins
			// before it waits as the first does, so none can be tried until
			// Close is seen to have begun.
			select {
			case err := <-closed:
				t.Fatalf("Close returned (%v) with a copy under way", err)
			case <-time.After(20 * time.Millisecond):
			}
			release()
			f.OK(f.Arrives("the copy", copied))
			f.OK(f.Arrives("Close", closed))
			f.Dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
			f.Fails("H2D", e.H2D(ctx, p, want), device.ErrClosed)
			f.Fails("D2H", e.D2H(ctx, want[:10], p), device.ErrClosed)
			f.OK(e.Close())
			if got := f.Download(make([]byte, n), p); !bytes.Equal(got, want) {
				t.Error("wrong content")
			}
			if s := pool.Stats(); s.Buffers != 0 || s.ActiveBytes != 0 || s.PendingBytes != 0 {
				t.Errorf("after Close: %s", s)
			}
		})
	}
}

// Close under the hands of those who copy: each copy is done, or fails with
// ErrClosed. Several may close at once.
func TestCloseWhileCopying(t *testing.T) {
	for round := range 10 {
		f := open(t)
		e, err := transfer.New(f.Dev, small)
		f.OK(err)
		began := make(chan struct{}, 100)
		var copying []<-chan error
		for i := range 4 {
			n := int64(300_000)
			if i%2 == 0 {
				n = 5000
			}
			p, want, got := f.Alloc(n), unique(n, byte(i)), make([]byte, n)
			copying = append(copying, async(func() error {
				for {
					err := e.H2D(ctx, p, want)
					if err == nil {
						err = e.D2H(ctx, got, p)
					}
					if err != nil {
						return err
					}
					if !bytes.Equal(got, want) {
						return errors.New("wrong content")
					}
					select {
					case began <- struct{}{}:
					default:
					}
				}
			}))
		}
		for range round {
			<-began
		}
		var closing []<-chan error
		for range 3 {
			closing = append(closing, async(e.Close))
		}
		for _, c := range closing {
			f.OK(f.Arrives("Close", c))
		}
		if n, opened := f.Dev.PinnedNow.Load(), f.Dev.Opened.Load(); n != 0 || opened != 0 {
			t.Errorf("after Close: %d bytes pinned, %d streams and events open", n, opened)
		}
		for _, c := range copying {
			f.Fails("a copy", f.Arrives("a copy on an engine that is closed", c), device.ErrClosed)
		}
	}
}
