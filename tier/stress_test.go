package tier_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

var stressFor = flag.Duration("stress", 0, "how long each case of TestStress runs; 0: some hundred steps")

// stress is goroutines that use arrays of one store at random, and a model of every
// byte. What they ask for fits, so nothing but a context that ends is an error.
type stress struct {
	*fixture
	pool   *vram.Pool // of others too; nil: none
	others sync.Mutex // held by the one that allocates from it
	most   int64      // bytes of all arrays
	large  int64      // bytes of one use
	slots  []*slot
	total  struct {
		sync.Mutex
		bytes int64
	}
	refused int
}

// slot is an array and what is in it. The lock is for what the store refuses beside
// each other.
type slot struct {
	sync.RWMutex
	a *tier.Array
	b []byte
}

func (x *slot) lock(mode int) bool {
	if mode == 0 {
		return x.TryRLock()
	}
	return x.TryLock()
}

func (x *slot) unlock(mode int) {
	if mode == 0 {
		x.RUnlock()
	} else {
		x.Unlock()
	}
}

// Eight goroutines, budgets of a few arrays, every byte compared.
func TestStress(t *testing.T) {
	seeds := uint64(1)
	if *stressFor > 0 {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("memory ", seed), func(t *testing.T) {
			runStress(t, seed, tier.Options{DeviceBytes: 16 * mib, HostBytes: 32 * mib}, 0, 35*mib)
		})
		t.Run(fmt.Sprint("files ", seed), func(t *testing.T) {
			files := tier.Files{Folders: []string{t.TempDir(), t.TempDir()}, Bytes: 48 * mib, Checksums: true}
			runStress(t, seed, tier.Options{DeviceBytes: 16 * mib, HostBytes: 16 * mib, Files: files}, 0, 55*mib)
		})
		t.Run(fmt.Sprint("pool ", seed), func(t *testing.T) {
			runStress(t, seed, tier.Options{DeviceBytes: 24 * mib, HostBytes: 32 * mib}, 24*mib, 38*mib)
		})
		t.Run(fmt.Sprint("pool and files ", seed), func(t *testing.T) {
			files := tier.Files{Folders: []string{t.TempDir()}, Bytes: 48 * mib}
			runStress(t, seed, tier.Options{DeviceBytes: 24 * mib, HostBytes: 12 * mib, Files: files}, 24*mib, 54*mib)
		})
	}
}

func runStress(t *testing.T, seed uint64, o tier.Options, pool, most int64) {
	dev := devicetest.Open(t)
	x := &stress{most: most, large: 8 * mib}
	if pool > 0 {
		var err error
		x.pool, err = vram.New(dev, vram.Options{Budget: pool})
		testkit.OK(t, err)
		t.Cleanup(func() { testkit.OK(t, x.pool.Close()) })
		o.Pool = x.pool
	}
	x.fixture = openOn(t, dev, o)
	r := rand.New(rand.NewPCG(seed, 100))
	for range 40 {
		y := &slot{}
		x.renew(r, y)
		x.slots = append(x.slots, y)
	}
	end := time.Now().Add(*stressFor)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(g)))
			stream, err := dev.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			defer stream.Close()
			for i := 0; !t.Failed() && (i < 60 || time.Now().Before(end)); i++ {
				x.step(r, stream)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Logf("%+v", x.store.Stats())
		return
	}
	for _, y := range x.slots {
		if y.a != nil {
			got := make([]byte, len(y.b))
			testkit.OK(t, y.a.ReadAt(ctx, got, 0))
			if !bytes.Equal(got, y.b) {
				t.Errorf("%v has another content in the end", y.a)
			}
			testkit.OK(t, y.a.Free())
		}
	}
	testkit.Eventually(t, "nothing is used", func() bool {
		for _, l := range x.store.Stats().Levels {
			if l.Used != 0 {
				return false
			}
		}
		return true
	})
	s := x.store.Stats()
	if s.Arrays != 0 || s.Bytes != 0 || s.PinnedBytes != 0 || s.AheadBytes != 0 {
		t.Errorf("left behind: %+v", s)
	}
	if got := x.store.PeakHostBytes(); got > o.HostBytes || s.DevicePeak > o.DeviceBytes {
		t.Errorf("%d bytes of host memory, the budget is %d; %d of device memory, %d", got, o.HostBytes, s.DevicePeak, o.DeviceBytes)
	}
	t.Logf("%d allocations of others were refused; %+v", x.refused, s)
}

// renew makes a new array, if it fits.
func (x *stress) renew(r *rand.Rand, y *slot) {
	n := []int64{1, 511, 4095, 4096, 4097, 100_001, mib/2 + 3, mib - 1, 3*mib + 5, 6 * mib}[r.IntN(10)]
	if r.IntN(3) == 0 {
		n = 1 + r.Int64N(2*mib)
	}
	pages := (n + 4095) &^ 4095
	x.total.Lock()
	defer x.total.Unlock()
	if y.a != nil {
		if err := y.a.Free(); err != nil {
			x.Error(err)
		}
		x.total.bytes -= (y.a.Bytes() + 4095) &^ 4095
	}
	y.a = nil
	if x.total.bytes+pages > x.most {
		return
	}
	a, err := x.store.NewArray("", n)
	if err != nil {
		x.Error(err)
		return
	}
	x.total.bytes += pages
	y.a, y.b = a, make([]byte, n)
}

// ended reports whether an error is that of a context that ended, which only one that
// is short does.
func (x *stress) ended(err error, short bool) bool {
	if err != nil && !(short && errors.Is(err, context.DeadlineExceeded)) {
		x.Error(err)
	}
	return err != nil
}

// step is one operation of a goroutine.
func (x *stress) step(r *rand.Rand, stream device.Stream) {
	c, cancel, short := ctx, context.CancelFunc(func() {}), r.IntN(4) == 0
	if short {
		c, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
	}
	defer cancel()
	y := x.slots[r.IntN(len(x.slots))]
	switch k := r.IntN(12); k {
	case 0:
		if y.TryLock() {
			x.renew(r, y)
			y.Unlock()
		}
	case 1, 2, 3:
		mode := r.IntN(2)
		if !y.lock(mode) {
			return
		}
		defer y.unlock(mode)
		if y.a != nil {
			x.host(c, short, r, y, mode)
		}
	case 4:
		x.hint(r)
	case 5:
		if x.pool != nil {
			x.other(r, stream)
		}
	default:
		x.use(c, short, r, stream)
	}
}

// host reads or writes a part of an array, or all of it.
func (x *stress) host(c context.Context, short bool, r *rand.Rand, y *slot, mode int) {
	offset := r.Int64N(y.a.Bytes())
	n := 1 + r.Int64N(y.a.Bytes()-offset)
	if r.IntN(2) == 0 {
		offset, n = 0, y.a.Bytes()
	}
	if mode == 0 {
		p := make([]byte, n)
		if !x.ended(y.a.ReadAt(c, p, offset), short) && !bytes.Equal(p, y.b[offset:offset+n]) {
			x.Errorf("%v: the host reads another content", y.a)
		}
		return
	}
	p := testkit.RandomBytes(int(n), r.Uint64())
	if !x.ended(y.a.WriteAt(c, p, offset), short) {
		copy(y.b[offset:], p)
	}
}

// use reads and writes some arrays on the device.
func (x *stress) use(c context.Context, short bool, r *rand.Rand, stream device.Stream) {
	type part struct {
		*slot
		mode int
		got  []byte
	}
	var parts []part
	var accesses []tier.Access
	left, seen := x.large, map[*slot]bool{}
	for range 1 + r.IntN(4) {
		y, mode := x.slots[r.IntN(len(x.slots))], r.IntN(3)
		if seen[y] || !y.lock(mode) {
			continue
		}
		if y.a == nil || y.a.Bytes()+4095 > left {
			y.unlock(mode)
			continue
		}
		defer y.unlock(mode)
		seen[y] = true
		left -= y.a.Bytes() + 4095
		parts = append(parts, part{y, mode, nil})
		accesses = append(accesses, []func(*tier.Array) tier.Access{tier.Read, tier.Write, tier.Overwrite}[mode](y.a))
	}
	if len(parts) == 0 {
		return
	}
	l, err := x.store.Use(c, stream, accesses...)
	if x.ended(err, short) {
		return
	}
	var errs []error
	for i, y := range parts {
		if y.mode < 2 {
			parts[i].got = make([]byte, len(y.b))
			errs = append(errs, stream.CopyD2H(parts[i].got, l.Ptr(y.a)))
		}
	}
	errs = append(errs, stream.Synchronize())
	for _, y := range parts {
		if y.mode < 2 && !bytes.Equal(y.got, y.b) {
			errs = append(errs, fmt.Errorf("%v: the device reads another content", y.a))
		}
		if y.mode > 0 {
			v, offset, n := byte(r.Uint32()), int64(0), y.a.Bytes()
			if y.mode == 1 {
				offset = r.Int64N(n)
				n = 1 + r.Int64N(n-offset)
			}
			errs = append(errs, stream.Memset(l.Ptr(y.a).Add(offset), v, n))
			fill(y.b[offset:offset+n], v)
		}
	}
	if err := errors.Join(append(errs, l.Release())...); err != nil {
		x.Error(err)
	}
}

func (x *stress) hint(r *rand.Rand) {
	var list []*tier.Array
	for range 1 + r.IntN(30) {
		if y := x.slots[r.IntN(len(x.slots))]; y.TryRLock() {
			if y.a != nil {
				list = append(list, y.a)
			}
			y.RUnlock()
		}
	}
	switch r.IntN(5) {
	case 0:
		x.store.WillNeed(list...)
	case 1:
		x.store.DontNeed(list...)
	case 2:
		x.store.Sequential(list...)
	case 3:
		x.store.Replay(list).Forget()
	case 4:
		tape := x.store.Record()
		x.step(r, x.stream)
		x.store.Replay(tape.Stop())
	}
}

// other allocates memory of the pool for somebody else.
func (x *stress) other(r *rand.Rand, stream device.Stream) {
	x.others.Lock()
	defer x.others.Unlock()
	b, err := x.pool.Alloc(ctx, 1+r.Int64N(4*mib), vram.Use{Stream: stream})
	if errors.Is(err, device.ErrOutOfMemory) {
		x.refused++ // leases hold the rest
		return
	}
	if err == nil {
		err = errors.Join(stream.Memset(b.Ptr(), 0xee, 1), stream.Synchronize(), b.Free())
	}
	if err != nil {
		x.Error(err)
	}
}
