package pinned

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// stamp writes id at both ends and in the middle of whole pages.
func stamp(b []byte, id uint64) {
	for _, at := range stampsAt(b) {
		binary.LittleEndian.PutUint64(b[at:], id)
	}
}

func stamped(b []byte, id uint64) bool {
	for _, at := range stampsAt(b) {
		if binary.LittleEndian.Uint64(b[at:]) != id {
			return false
		}
	}
	return true
}

func stampsAt(b []byte) []int { return []int{0, len(b) / 2 &^ 7, len(b) - 8} }

// modelBuffer is what the model knows of a buffer: memory that must keep its
// stamp while the buffer is live or its marks are not passed.
type modelBuffer struct {
	buf   *Buffer // nil while pending
	mem   []byte  // whole pages
	id    uint64
	n     int64
	marks []*fakeMark
}

func (m *modelBuffer) passed() bool {
	return !slices.ContainsFunc(m.marks, func(k *fakeMark) bool { return !k.done.Load() })
}

// Random operations against a model that knows no segments: memory belongs to
// one buffer at a time, pending memory to the device, and a free block that
// fits is chosen as best fit says.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 7))
		dev := newFake()
		if seed%2 == 1 {
			dev.pinLimit = 5 * mib
		}
		streams := []*fakeStream{{dev: dev}, {dev: dev}, {dev: dev}}
		p := newPool(t, dev, Options{
			Budget: 6 * mib, SegmentBytes: 256 << 10, ShrinkAfter: -1, PrefaultWorkers: 1,
			AllowPageable: seed%3 == 2,
		})
		var live, pending []*modelBuffer
		var id uint64
		var active, requested int64
		budgetErrors, reuses := 0, 0
		for step := range 4000 {
			switch op := rng.IntN(100); {
			case op < 45: // alloc
				n := int64(1 + rng.IntN(64<<10))
				switch rng.IntN(10) {
				case 0:
					n = int64(1 + rng.IntN(2*mib))
				case 1, 2, 3:
					n = 4096
				}
				p.Stats() // takes back what is done, so that the model can foretell
				best := p.bestFit(n)
				b, err := p.Alloc(over, n)
				if err != nil {
					if !errors.Is(err, ErrBudget) && !errors.Is(err, device.ErrPinLimit) || best != 0 {
						t.Fatalf("seed %d step %d: alloc %d: %v", seed, step, n, err)
					}
					budgetErrors++
					break
				}
				if best != 0 {
					reuses++
					if address(b) != best {
						t.Fatalf("seed %d step %d: alloc %d: at %#x, best fit at %#x", seed, step, n, address(b), best)
					}
				}
				id++
				m := &modelBuffer{buf: b, mem: b.Bytes()[:cap(b.Bytes())], id: id, n: n}
				if got := int64(len(m.mem)); got != pagemem.RoundUp(n) {
					t.Fatalf("seed %d step %d: %d bytes for %d", seed, step, got, n)
				}
				stamp(m.mem, id)
				live = append(live, m)
				active += int64(len(m.mem))
				requested += n
			case op < 80: // free
				if len(live) == 0 {
					break
				}
				i := rng.IntN(len(live))
				m := live[i]
				live = slices.Delete(live, i, i+1)
				before := len(dev.marks)
				mustFree(t, m.buf, streams[:rng.IntN(len(streams)+1)]...)
				if err := m.buf.Free(); !errors.Is(err, ErrFreed) {
					t.Fatal(err)
				}
				m.buf = nil
				m.marks = slices.Clone(dev.marks[before:])
				if len(m.marks) > 0 {
					pending = append(pending, m)
				}
				active -= int64(len(m.mem))
				requested -= m.n
			case op < 97: // the device gets something done, in any order
				if len(dev.marks) > 0 {
					// What is pending must be as it was until the very moment.
					for _, m := range pending {
						if !m.passed() && !stamped(m.mem, m.id) {
							t.Fatalf("seed %d step %d: pending memory was reused", seed, step)
						}
					}
					for range 1 + rng.IntN(3) {
						dev.marks[rng.IntN(len(dev.marks))].complete()
					}
					pending = slices.DeleteFunc(pending, (*modelBuffer).passed)
					dev.marks = slices.DeleteFunc(dev.marks, func(m *fakeMark) bool { return m.done.Load() })
				}
			default:
				if _, err := p.Trim(); err != nil {
					t.Fatal(err)
				}
				if s := p.Stats(); s.PendingBuffers == 0 && active == 0 && s.ReservedBytes != 0 {
					t.Fatalf("seed %d step %d: trim left %d bytes", seed, step, s.ReservedBytes)
				}
			}
			for _, m := range live {
				if !stamped(m.mem, m.id) {
					t.Fatalf("seed %d step %d: a live buffer of %d bytes was overwritten", seed, step, m.n)
				}
			}
			if err := p.check(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			s := p.Stats()
			var waiting int64
			for _, m := range pending {
				waiting += int64(len(m.mem))
			}
			if s.ActiveBytes != active || s.RequestedBytes != requested || s.Buffers != len(live) ||
				s.PendingBytes != waiting || s.PendingBuffers != len(pending) {
				t.Fatalf("seed %d step %d: active %d, requested %d, %d live, %d pending: %+v",
					seed, step, active, requested, len(live), len(pending), s)
			}
		}
		if n := p.Stats().Failures; n != int64(budgetErrors) {
			t.Errorf("seed %d: %d failures are counted, there were %d", seed, n, budgetErrors)
		}
		if budgetErrors == 0 || reuses == 0 {
			t.Errorf("seed %d: %d failures, %d reuses: the test does not test", seed, budgetErrors, reuses)
		}
		for _, m := range live {
			mustFree(t, m.buf)
		}
	}
}

// bestFit finds by looking at every block where a request of n bytes has to
// go; 0 where no block of its class fits.
func (p *Pool) bestFit(n int64) uintptr {
	size := pagemem.RoundUp(n)
	c := own
	if size <= p.segmentBytes/shareDivisor {
		c = shared
	}
	var best *block
	for s := range p.segments {
		for b := s.first; b != nil; b = b.next {
			if b.free && s.class == c && b.size >= size && (best == nil || b.size < best.size || b.size == best.size && b.addr < best.addr) {
				best = b
			}
		}
	}
	if best == nil {
		return 0
	}
	return best.addr
}

// Goroutines allocate, stamp, check and free, while events complete, segments
// are trimmed and shrink, and others look at the statistics.
func TestConcurrent(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{
		Budget: 16 * mib, SegmentBytes: 256 << 10, ShrinkAfter: time.Millisecond, PrefaultWorkers: 2,
	})
	stop := make(chan struct{})
	var background, workers sync.WaitGroup
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Microsecond):
				dev.Synchronize()
				_ = p.Stats().String()
			}
		}
	})
	background.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				if _, err := p.Trim(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for g := range uint64(8) {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(g, 1))
			stream := &fakeStream{dev: dev}
			for i := range uint64(300) {
				n := int64(1 + rng.IntN(128<<10))
				if rng.IntN(8) == 0 {
					n *= 8
				}
				b, err := p.Alloc(over, n)
				if errors.Is(err, ErrBudget) {
					time.Sleep(100 * time.Microsecond)
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				id := g<<32 | i
				mem := b.Bytes()[:cap(b.Bytes())]
				stamp(mem, id)
				if rng.IntN(4) == 0 {
					time.Sleep(10 * time.Microsecond)
				}
				if !stamped(mem, id) {
					t.Errorf("a live buffer of %d bytes was overwritten", n)
				}
				if rng.IntN(2) == 0 {
					err = b.Free(stream)
				} else {
					err = b.Free()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	background.Wait()
}
