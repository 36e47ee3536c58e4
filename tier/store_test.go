package tier_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

var ctx = context.Background()

const mib = 1 << 20

// fixture is a store on the device under test.
type fixture struct {
	testing.TB
	dev    device.Device
	stream device.Stream
	store  *tier.Store
}

func open(t testing.TB, o tier.Options) *fixture {
	t.Helper()
	return openOn(t, devicetest.Open(t), o)
}

func openOn(t testing.TB, dev device.Device, o tier.Options) *fixture {
	t.Helper()
	testkit.NoLeaks(t)
	store, err := tier.New(dev, o)
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	f := &fixture{t, dev, stream, store}
	t.Cleanup(func() {
		testkit.OK(t, stream.Close())
		if err := store.Close(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) array(name string, n int64) *tier.Array {
	f.Helper()
	a, err := f.store.NewArray(name, n)
	testkit.OK(f, err)
	return a
}

func (f *fixture) use(accesses ...tier.Access) *tier.Lease {
	f.Helper()
	l, err := f.store.Use(ctx, f.stream, accesses...)
	testkit.OK(f, err)
	return l
}

// untilWait is a context that ends once n uses wait.
func (f *fixture) untilWait(n int) context.Context {
	c, cancel := context.WithCancel(ctx)
	f.Cleanup(cancel)
	go func() {
		defer cancel()
		for end := time.Now().Add(testkit.Hang); f.store.Stats().Waiting < n && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
	}()
	return c
}

// read returns the content of an array by way of the device.
func (f *fixture) read(a *tier.Array) []byte {
	f.Helper()
	l := f.use(tier.Read(a))
	b := make([]byte, a.Bytes())
	testkit.OK(f, f.stream.CopyD2H(b, l.Ptr(a)))
	testkit.OK(f, f.stream.Synchronize())
	testkit.OK(f, l.Release())
	return b
}

// fill sets a part of an array on the device.
func (f *fixture) fill(x tier.Access, a *tier.Array, value byte, offset, n int64) {
	f.Helper()
	l := f.use(x)
	testkit.OK(f, f.stream.Memset(l.Ptr(a).Add(offset), value, n))
	testkit.OK(f, l.Release())
}

func TestSweep(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 16 * mib, HostBytes: 64 * mib})
	var arrays []*tier.Array
	for i := range 32 {
		a := f.array("", mib)
		arrays = append(arrays, a)
		testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, mib), 0))
	}
	order := f.store.Sequential(arrays...)
	for sweep := range 3 {
		for i, a := range arrays {
			got := f.read(a)
			if want := bytes.Repeat([]byte{byte(i + sweep)}, mib); !bytes.Equal(got, want) {
				t.Fatalf("sweep %d, array %d: %d…, want %d", sweep, i, got[:4], want[0])
			}
			f.fill(tier.Write(a), a, byte(i+sweep+1), 0, mib)
		}
	}
	order.Forget()
	s := f.store.Stats()
	t.Logf("%+v", s)
	if s.Levels[0].Used > 16*mib || s.DevicePeak > 16*mib {
		t.Errorf("%+v", s)
	}
	for i, a := range arrays {
		got := make([]byte, mib)
		testkit.OK(t, a.ReadAt(ctx, got, 0))
		if got[0] != byte(i+3) {
			t.Errorf("array %d: %d", i, got[0])
		}
	}
}

func TestRandomOperations(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { testRandom(t, seed) })
	}
}

func testRandom(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 5))
	o, most := tier.Options{DeviceBytes: 8 * mib, HostBytes: 16 * mib}, int64(18*mib)
	if seed%2 == 1 {
		o.HostBytes = 6 * mib
		o.Files = tier.Files{Folders: []string{t.TempDir(), t.TempDir()}, Bytes: 32 * mib, Checksums: true}
		most = 36 * mib
	}
	f := open(t, o)
	type model struct {
		a *tier.Array
		b []byte
	}
	var live []*model
	total := int64(0)
	for step := range 1500 {
		var m *model
		if len(live) > 0 {
			m = live[r.IntN(len(live))]
		}
		switch k := r.IntN(10); {
		case m == nil || k == 0:
			n := 1 + r.Int64N(most/72)
			if total+n > most {
				continue
			}
			a, err := f.store.NewArray("", n)
			testkit.OK(t, err)
			live = append(live, &model{a, make([]byte, n)})
			total += n
		case k == 1 && total > most-2*mib:
			testkit.OK(t, m.a.Free())
			total -= m.a.Bytes()
			live = deleteOne(live, m)
		case k < 4:
			got := f.read(m.a)
			if !bytes.Equal(got, m.b) {
				t.Fatalf("seed %d step %d: wrong content", seed, step)
			}
		case k < 7:
			off := r.Int64N(m.a.Bytes())
			n := 1 + r.Int64N(m.a.Bytes()-off)
			v := byte(r.Uint32())
			if k == 6 {
				off, n = 0, m.a.Bytes()
				f.fill(tier.Overwrite(m.a), m.a, v, off, n)
			} else {
				f.fill(tier.Write(m.a), m.a, v, off, n)
			}
			fill(m.b[off:off+n], v)
		case k == 7:
			off := r.Int64N(m.a.Bytes())
			p := make([]byte, 1+r.Int64N(m.a.Bytes()-off))
			testkit.OK(t, m.a.ReadAt(ctx, p, off))
			if !bytes.Equal(p, m.b[off:off+int64(len(p))]) {
				t.Fatalf("seed %d step %d: wrong content", seed, step)
			}
		case k == 8:
			off := r.Int64N(m.a.Bytes())
			p := testkit.RandomBytes(int(1+r.Int64N(m.a.Bytes()-off)), r.Uint64())
			testkit.OK(t, m.a.WriteAt(ctx, p, off))
			copy(m.b[off:], p)
		default:
			f.hint(r, live[r.IntN(len(live))].a, m.a)
		}
	}
	for _, m := range live {
		if !bytes.Equal(f.read(m.a), m.b) {
			t.Fatalf("seed %d: wrong content in the end", seed)
		}
	}
	s := f.store.Stats()
	t.Logf("%+v", s)
	if got := f.store.PeakHostBytes(); got > o.HostBytes || s.DevicePeak > o.DeviceBytes {
		t.Errorf("%d bytes of host memory, the budget is %d; %d of device memory, %d", got, o.HostBytes, s.DevicePeak, o.DeviceBytes)
	}
}

func (f *fixture) hint(r *rand.Rand, x, y *tier.Array) {
	switch r.IntN(4) {
	case 0:
		f.store.WillNeed(x, y)
	case 1:
		f.store.DontNeed(x)
	case 2:
		f.store.Sequential(x, y)
	case 3:
		f.store.Replay([]*tier.Array{x, y, x})
	}
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}

func deleteOne[T comparable](list []T, x T) []T {
	for i, y := range list {
		if x == y {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}
