package tier_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

// Other allocations of the pool push arrays out, instead of failing, and arrays that
// are touched push each other out; the content stays.
func TestPressure(t *testing.T) {
	dev := devicetest.Open(t)
	const capacity, each = 128 * mib, 4 * mib
	pool, err := vram.New(dev, vram.Options{Budget: capacity})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	f := openOn(t, dev, tier.Options{Pool: pool, HostBytes: 2*capacity + each})
	r := rand.New(rand.NewPCG(3, 4))
	var arrays []*tier.Array
	var content []byte
	for range 2 * capacity / each {
		a := f.array("", each)
		v := byte(r.Uint32())
		f.fill(tier.Overwrite(a), a, v, 0, each)
		arrays, content = append(arrays, a), append(content, v)
	}
	var others []vram.Block
	for i := range 400 {
		switch k := r.IntN(len(arrays)); {
		case i%4 == 0 && len(others) < 20:
			b, err := pool.Alloc(ctx, each, vram.Use{Stream: f.stream, Name: "other"})
			testkit.OK(t, err)
			testkit.OK(t, f.stream.Memset(b.Ptr(), 0xee, each))
			others = append(others, b)
		case i%4 == 1 && len(others) > 10:
			testkit.OK(t, others[0].Free())
			others = others[1:]
		case i%2 == 0:
			content[k]++
			f.fill(tier.Write(arrays[k]), arrays[k], content[k], 0, each)
		default:
			if got := f.read(arrays[k]); !bytes.Equal(got, bytes.Repeat(content[k:k+1], each)) {
				t.Fatalf("array %d after %d steps: %d, want %d", k, i, got[0], content[k])
			}
		}
	}
	for _, b := range others {
		testkit.OK(t, b.Free())
	}
	s := f.store.Stats()
	if s.ReclaimedBytes == 0 {
		t.Errorf("nothing was reclaimed: %+v", s)
	}
	for i, a := range arrays {
		got := make([]byte, each)
		testkit.OK(t, a.ReadAt(ctx, got, 0))
		if !bytes.Equal(got, bytes.Repeat(content[i:i+1], each)) {
			t.Fatalf("array %d: %d, want %d", i, got[0], content[i])
		}
	}
}

// Arrays leave for other allocations also by way of the files, when host memory is
// full.
func TestPressureFiles(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Budget: 32 * mib})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	f := openOn(t, dev, tier.Options{Pool: pool, HostBytes: 4 * mib, Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 64 * mib}})
	var arrays []*tier.Array
	for i := range 60 {
		a := f.array("", mib)
		f.fill(tier.Overwrite(a), a, byte(i), 0, mib)
		arrays = append(arrays, a)
	}
	b, err := pool.Alloc(ctx, 16*mib, vram.Use{Stream: f.stream})
	testkit.OK(t, err)
	testkit.OK(t, b.Free())
	for i, a := range arrays {
		got := make([]byte, mib)
		testkit.OK(t, a.ReadAt(ctx, got, 0))
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, mib)) {
			t.Fatalf("array %d: %d", i, got[0])
		}
	}
}

// Goroutines with streams of their own share arrays: every write is seen by whoever
// comes next, on whichever stream.
func TestConcurrent(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testConcurrent(t, tier.Options{DeviceBytes: 8 * mib, HostBytes: 32 * mib}) })
	t.Run("files", func(t *testing.T) {
		testConcurrent(t, tier.Options{DeviceBytes: 8 * mib, HostBytes: 8 * mib,
			Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 32 * mib, Checksums: true}})
	})
}

func testConcurrent(t *testing.T, o tier.Options) {
	f := open(t, o)
	const n = mib / 2
	type shared struct {
		sync.RWMutex
		a *tier.Array
		v byte
	}
	var list []*shared
	for range 60 {
		list = append(list, &shared{a: f.array("", n)})
	}
	arrays := make([]*tier.Array, len(list))
	for i, x := range list {
		arrays[i] = x.a
	}
	f.store.Sequential(arrays[:30]...)
	f.users(1, func(stream device.Stream, r *rand.Rand) error {
		for i := range 200 {
			x := list[r.IntN(len(list))]
			if i%3 == 0 {
				x = list[i%30]
			}
			if err := touch(f.store, x.a, stream, r, &x.RWMutex, &x.v); err != nil {
				return err
			}
		}
		return nil
	})
	for i, x := range list {
		if got := f.read(x.a); !bytes.Equal(got, bytes.Repeat([]byte{x.v}, n)) {
			t.Errorf("array %d: %d, want %d", i, got[0], x.v)
		}
	}
}

// users runs four goroutines, each with a stream and random numbers of its own.
func (f *fixture) users(seed uint64, use func(stream device.Stream, r *rand.Rand) error) {
	var all sync.WaitGroup
	for g := range uint64(4) {
		all.Go(func() {
			stream, err := f.dev.NewStream()
			if err == nil {
				err = errors.Join(use(stream, rand.New(rand.NewPCG(g, seed))), stream.Close())
			}
			if err != nil {
				f.Error(err)
			}
		})
	}
	all.Wait()
}

// touch reads or writes an array that others touch too. The lock is held for the
// calls that the store refuses beside each other; the work itself runs on.
func touch(s *tier.Store, a *tier.Array, stream device.Stream, r *rand.Rand, mu *sync.RWMutex, v *byte) error {
	short, cancel := context.WithCancel(ctx)
	if r.IntN(20) == 0 {
		cancel()
	}
	defer cancel()
	if r.IntN(2) == 0 {
		mu.Lock()
		defer mu.Unlock()
		l, err := s.Use(short, stream, tier.Write(a))
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		*v++
		return errors.Join(stream.Memset(l.Ptr(a), *v, a.Bytes()), l.Release())
	}
	mu.RLock()
	defer mu.RUnlock()
	l, err := s.Use(short, stream, tier.Read(a))
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	got := make([]byte, a.Bytes())
	if err := errors.Join(stream.CopyD2H(got, l.Ptr(a)), stream.Synchronize(), l.Release()); err != nil {
		return err
	}
	if !bytes.Equal(got, bytes.Repeat([]byte{*v}, len(got))) {
		return errors.New("wrong content")
	}
	return nil
}

// Uses of many arrays by several goroutines, each nearly as large as the budget, take
// turns and all finish.
func TestLargeUses(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 16 * mib, HostBytes: 16 * mib,
		Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 32 * mib}})
	const n = mib
	var arrays []*tier.Array
	for i := range 40 {
		a := f.array("", n)
		testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, n), 0))
		arrays = append(arrays, a)
	}
	f.users(2, func(stream device.Stream, r *rand.Rand) error {
		got := make([]byte, n)
		for range 25 {
			var uses []tier.Access
			which := r.Perm(len(arrays))[:1+r.IntN(15)]
			for _, i := range which {
				uses = append(uses, tier.Read(arrays[i]))
			}
			l, err := f.store.Use(ctx, stream, uses...)
			if err != nil {
				return err
			}
			for _, i := range which {
				if err := errors.Join(stream.CopyD2H(got, l.Ptr(arrays[i])), stream.Synchronize()); err != nil {
					t.Error(err)
				} else if !bytes.Equal(got, bytes.Repeat([]byte{byte(i)}, n)) {
					t.Errorf("array %d: %d", i, got[0])
				}
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
}

// An array that was listed as a victim while a use waited for others, and offered by
// that use, leaves once.
func TestLeavesOnce(t *testing.T) {
	const budget = 4 * mib
	f := open(t, tier.Options{DeviceBytes: budget, HostBytes: 64 * mib})
	r := rand.New(rand.NewPCG(7, 8))
	var arrays []*tier.Array
	for range 40 {
		a := f.array("", 1+r.Int64N(mib))
		testkit.OK(t, a.WriteAt(ctx, make([]byte, a.Bytes()), 0))
		arrays = append(arrays, a)
	}
	f.store.Sequential(arrays...)
	for range 2000 {
		var accesses []tier.Access
		for _, i := range r.Perm(len(arrays))[:1+r.IntN(4)] {
			accesses = append(accesses, tier.Read(arrays[i]))
		}
		testkit.OK(t, f.use(accesses...).Release())
	}
	for _, a := range arrays {
		testkit.OK(t, a.Free())
	}
	testkit.Eventually(t, "nothing is used", func() bool {
		levels := f.store.Stats().Levels
		return levels[0].Used == 0 && levels[1].Used == 0
	})
}

// Allocations of others are not refused while six goroutines use arrays, as long as what
// these hold leaves room.
func TestPressureBesideUses(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Budget: 24 * mib})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	f := openOn(t, dev, tier.Options{Pool: pool, HostBytes: 96 * mib})
	r := rand.New(rand.NewPCG(1, 2))
	var arrays [6][]*tier.Array
	for i := range arrays {
		for range 10 {
			a := f.array("", 1+r.Int64N(2*mib))
			testkit.OK(t, a.WriteAt(ctx, make([]byte, a.Bytes()), 0))
			arrays[i] = append(arrays[i], a)
		}
	}
	var done atomic.Bool
	var uses, others sync.WaitGroup
	for i, list := range arrays {
		uses.Go(func() {
			stream, err := dev.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			defer stream.Close()
			r := rand.New(rand.NewPCG(uint64(i), 3))
			for !done.Load() {
				a := list[r.IntN(len(list))]
				l, err := f.store.Use(ctx, stream, []func(*tier.Array) tier.Access{tier.Read, tier.Write, tier.Overwrite}[r.IntN(3)](a))
				if err == nil {
					err = errors.Join(stream.Memset(l.Ptr(a), 1, a.Bytes()), stream.Synchronize(), l.Release())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 4 {
		others.Go(func() {
			stream, err := dev.NewStream()
			if err != nil {
				t.Error(err)
				return
			}
			defer stream.Close()
			r := rand.New(rand.NewPCG(uint64(i), 4))
			for range 100 {
				b, err := pool.Alloc(ctx, 1+r.Int64N(3*mib/2), vram.Use{Stream: stream})
				if err == nil {
					err = errors.Join(stream.Memset(b.Ptr(), 2, 1), stream.Synchronize(), b.Free())
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	others.Wait()
	done.Store(true)
	uses.Wait()
	t.Logf("%+v", f.store.Stats())
}

// A use that waits for a pool that others have emptied goes on when they free memory,
// and says who has it when its context ends first.
func TestWaitsForOthers(t *testing.T) {
	const each = 4 * mib
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Budget: 16 * mib})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	f := openOn(t, dev, tier.Options{Pool: pool, HostBytes: 64 * mib})
	a, b, c := f.array("a", each), f.array("b", each), f.array("c", each)
	held := f.use(tier.Overwrite(a)) // somebody who could make room
	other, err := pool.Alloc(ctx, 16*mib-each, vram.Use{Name: "other"})
	testkit.OK(t, err)

	var room *tier.RoomError
	testkit.Eventually(t, "a context that ends while there is no room", func() bool { // not while it is being looked for
		_, err = f.store.Use(f.untilWait(1), f.stream, tier.Overwrite(b))
		return errors.As(err, &room) && errors.Is(err, device.ErrOutOfMemory)
	})
	testkit.WantError(t, "waiting", err, context.Canceled, `"a" 4 MiB (in use)`, "1 use waited, 1 lease held, others had 12 MiB of the pool")
	if room.Leases != 1 || room.Waiting != 1 || room.Others != 12*mib || room.Needs != each {
		t.Errorf("%+v", room)
	}

	got := make(chan error)
	go func() {
		l, err := f.store.Use(ctx, f.stream, tier.Overwrite(b))
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	testkit.Eventually(t, "the use waits", func() bool {
		s := f.store.Stats()
		return s.Waiting == 1 && s.Leases == 1
	})
	testkit.Eventually(t, "a use behind one that the pool refused", func() bool {
		_, err = f.store.Use(f.untilWait(2), f.stream, tier.Overwrite(c))
		return errors.As(err, &room) && errors.Is(err, device.ErrOutOfMemory)
	})
	if room.Leases != 1 || room.Waiting != 2 || room.Others != 12*mib {
		t.Errorf("%+v", room)
	}
	before := f.store.Stats()
	testkit.OK(t, other.Free())
	testkit.OK(t, <-got)
	if after := f.store.Stats(); after.Waits != before.Waits+1 || after.WaitTime <= before.WaitTime {
		t.Errorf("%d uses waited for %v, before %d for %v", after.Waits, after.WaitTime, before.Waits, before.WaitTime)
	}
	testkit.OK(t, held.Release())
}
