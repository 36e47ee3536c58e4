package vram

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestTogether: many goroutines share a pool, and free what others allocated.
func TestTogether(t *testing.T) {
	for _, source := range []Source{SourceChunks, SourceSegments} {
		dev := devicetest.Open(t)
		p := newPool(t, dev, Options{Source: source, Budget: 128 << 20, History: 50})
		streams := []device.Stream{nil, newStream(t, dev), newStream(t, dev)}
		pass := make(chan Block, 64)
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 1))
				for i := range 2000 {
					b, err := p.Alloc(ctx, 1+r.Int64N(1<<(1+r.IntN(22))), Use{Stream: streams[r.IntN(3)], Purpose: Purpose(r.IntN(int(purposes)))})
					if err != nil && !errors.Is(err, device.ErrOutOfMemory) {
						t.Error(err)
						return
					}
					if err == nil {
						select {
						case pass <- b:
						default:
							b.Free()
						}
					}
					select {
					case b := <-pass:
						if err := b.Free(); err != nil {
							t.Error(err)
						}
					default:
					}
					switch i % 500 {
					case 100:
						p.Stats()
					case 200:
						p.Trim()
					case 300:
						p.Snapshot()
					}
				}
			})
		}
		wg.Wait()
		close(pass)
		for b := range pass {
			testkit.OK(t, b.Free())
		}
		p.verify(t)
		if s := p.Stats(); s.Blocks.Current != 0 || s.Requested.Current != 0 {
			t.Errorf("%+v", s.Blocks)
		}
	}
}

// TestCloseAmid: Close while others allocate.
func TestCloseAmid(t *testing.T) {
	dev := devicetest.Open(t)
	p, err := New(dev, Options{})
	testkit.OK(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				b, err := p.Alloc(ctx, 3<<20, Use{})
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := b.Free(); err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	var leak *LeakError
	if err := p.Close(); err != nil && !errors.As(err, &leak) {
		t.Error(err)
	}
	wg.Wait()
}

// TestAllocationsOfGo: what the pool keeps costs the garbage collector nothing.
func TestAllocationsOfGo(t *testing.T) {
	exact(t)
	dev := devicetest.Open(t)
	p := newPool(t, dev, Options{})
	use := Use{Stream: newStream(t, dev)}
	for _, n := range []int64{100, 1 << 20, 30 << 20} {
		if got := testing.AllocsPerRun(100, func() {
			b, err := p.Alloc(ctx, n, use)
			if err != nil {
				t.Fatal(err)
			}
			b.Free()
		}); got != 0 {
			t.Errorf("%d bytes: %v allocations", n, got)
		}
	}
}
