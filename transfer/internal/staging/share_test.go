package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

var sharedOptions = Options{Copiers: 4, Slots: DefaultSlots, SlotBytes: linkmodel.DefaultSlotBytes}

func shared(t *testing.T, dev device.Device) *Stager {
	t.Helper()
	testkit.NoLeaks(t)
	o := sharedOptions
	o.Device = dev
	s := New(o)
	t.Cleanup(func() { testkit.OK(t, s.Close()) })
	return s
}

func planFor(n int64, past bool) Plan {
	return PlanOf(linkmodel.Staging{Copiers: sharedOptions.Copiers, PastCaches: past}, n, sharedOptions.SlotBytes)
}

// Transfers cover a copy once, in order, and none crosses a slot.
func TestShareTransfers(t *testing.T) {
	for _, slot := range []int64{sharePiece, 96 << 10, 2 << 20} {
		for _, toHost := range []bool{false, true} {
			for _, n := range []int64{shareLeast, shareLeast + 1, 1 << 20, 1<<20 + 4097, shareMost - 1, shareMost} {
				sh := &share{memory: memory{Copy: Copy{Host: make([]byte, n), ToHost: toHost}}, slot: slot}
				for at := int64(0); at < n; {
					size := sh.transfer(at)
					if size <= 0 || size > n-at || at/slot != (at+size-1)/slot || at%sharePiece != 0 {
						t.Fatalf("%d bytes, slots of %d, to host %t: %d bytes at %d", n, slot, toHost, size, at)
					}
					at += size
				}
			}
		}
	}
}

// Copies of every size that is shared arrive, by several callers at once.
func TestShare(t *testing.T) {
	const region = shareMost + 1<<16
	dev := devicetest.OpenDiscrete(t, 64<<20)
	s := shared(t, dev)
	ctx := context.Background()
	var all sync.WaitGroup
	for worker := range uint64(3) {
		p := testkit.Must(dev.Alloc(region))(t)
		all.Go(func() {
			r := rand.New(rand.NewPCG(worker, 1))
			sent, got := testkit.RandomBytes(region, worker), make([]byte, region)
			for range 30 {
				n := shareLeast + r.Int64N(shareMost-shareLeast+1)>>r.IntN(8)
				at, to := r.Int64N(region-n+1), device.Ptr(r.Int64N(region-n+1))
				past := r.IntN(2) == 0
				err := errors.Join(
					s.Copy(ctx, Copy{Host: sent[at:][:n], Device: p + to}, nil, planFor(n, past)),
					s.Copy(ctx, Copy{Host: got[at:][:n], Device: p + to, ToHost: true}, nil, planFor(n, !past)))
				if err != nil || !bytes.Equal(got[at:][:n], sent[at:][:n]) {
					t.Errorf("%d bytes: wrong content, %v", n, err)
					return
				}
				clear(got)
			}
		})
	}
	all.Wait()
	if n := s.sharing.Load(); n != 0 {
		t.Errorf("%d shares are open", n)
	}
	if len(s.rings) != s.made {
		t.Errorf("%d of %d rings are free", len(s.rings), s.made)
	}
}

// failing lets the copy of that number fail.
type failing struct {
	device.Wrapper
	left atomic.Int32
}

var errBroken = errors.New("broken on purpose")

func (f *failing) NewStream() (device.Stream, error) {
	s, err := f.Wrapper.NewStream()
	if err != nil {
		return nil, err
	}
	return &failingStream{device.StreamWrapper{Stream: s}, f}, nil
}

type failingStream struct {
	device.StreamWrapper
	dev *failing
}

func (s *failingStream) CopyH2D(dst device.Ptr, src []byte) error {
	if s.dev.left.Add(-1) == 0 {
		return errBroken
	}
	return s.Stream.CopyH2D(dst, src)
}

func (s *failingStream) CopyD2H(dst []byte, src device.Ptr) error {
	if s.dev.left.Add(-1) == 0 {
		return errBroken
	}
	return s.Stream.CopyD2H(dst, src)
}

// A transfer that fails ends the copy: nobody touches the memory afterwards,
// and the next copy works.
func TestShareFails(t *testing.T) {
	const n = 3 << 20
	dev := &failing{Wrapper: device.Wrapper{Device: devicetest.OpenDiscrete(t, 16<<20)}}
	s := shared(t, dev)
	p := testkit.Must(dev.Alloc(n))(t)
	ctx := context.Background()
	want := testkit.RandomBytes(n, 1)
	for _, toHost := range []bool{false, true} {
		for _, number := range []int32{1, 2, 4} {
			t.Run(fmt.Sprintf("to host %t, transfer %d", toHost, number), func(t *testing.T) {
				host := bytes.Clone(want)
				dev.left.Store(number)
				err := s.Copy(ctx, Copy{Host: host, Device: p, ToHost: toHost}, nil, planFor(n, false))
				if !errors.Is(err, errBroken) {
					t.Errorf("%v, want %q", err, errBroken)
				}
				for i := range host { // with -race, a copier that still uses it is a race
					host[i] = 7
				}
				if open := s.sharing.Load(); open != 0 {
					t.Errorf("%d shares are open", open)
				}
				dev.left.Store(0)
				got := make([]byte, n)
				testkit.OK(t, s.Copy(ctx, Copy{Host: want, Device: p}, nil, planFor(n, true)))
				testkit.OK(t, s.Copy(ctx, Copy{Host: got, Device: p, ToHost: true}, nil, planFor(n, true)))
				if !bytes.Equal(got, want) {
					t.Error("wrong content of the copies afterwards")
				}
			})
		}
	}
}

// A shared copy allocates nothing once the ring has its events.
func BenchmarkShare(b *testing.B) {
	for _, n := range []int64{256 << 10, 1 << 20, 4 << 20} {
		for _, toHost := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d KiB, to host %t", n>>10, toHost), func(b *testing.B) {
				dev := devicetest.OpenDiscrete(b, 16<<20)
				o := sharedOptions
				o.Device = dev
				s := New(o)
				defer s.Close()
				p, err := dev.Alloc(n)
				testkit.OK(b, err)
				c := Copy{Host: make([]byte, n), Device: p, ToHost: toHost}
				b.SetBytes(n)
				b.ReportAllocs()
				for b.Loop() {
					testkit.OK(b, s.Copy(context.Background(), c, nil, planFor(n, true)))
				}
			})
		}
	}
}
