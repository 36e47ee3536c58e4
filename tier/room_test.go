package tier_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

// Whatever NewArray accepts can be used: of stores that are filled to the brim with
// arrays of any sizes, every use that the device has room for succeeds.
func TestBrim(t *testing.T) {
	const page = 4096
	for _, c := range []struct {
		name  string
		bytes func(r *rand.Rand) int64
		files bool
	}{
		{"tiny", func(r *rand.Rand) int64 { return 1 + r.Int64N(100) }, false},
		{"alike", func(*rand.Rand) int64 { return 3 * page }, false},
		{"mixed", func(r *rand.Rand) int64 { return 1 + r.Int64N(12*page) }, false},
		{"few sizes", func(r *rand.Rand) int64 { return 6 * page << r.IntN(2) }, false},
		{"files", func(r *rand.Rand) int64 { return 1 + r.Int64N(64*page) }, true},
		{"files, alike", func(*rand.Rand) int64 { return 40 * page }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			seeds := uint64(5)
			if testing.Short() {
				seeds = 2
			}
			for seed := range seeds {
				r := rand.New(rand.NewPCG(seed, 6))
				o := tier.Options{DeviceBytes: (26 + r.Int64N(60)) * page, HostBytes: (26 + r.Int64N(60)) * page}
				if c.files {
					o = tier.Options{DeviceBytes: (70 + r.Int64N(300)) * page, HostBytes: (70 + r.Int64N(300)) * page,
						Files: tier.Files{Folders: []string{t.TempDir()}, Bytes: 4 * mib}}
				}
				testBrim(t, r, o, c.bytes)
			}
		})
	}
}

func testBrim(t *testing.T, r *rand.Rand, o tier.Options, size func(*rand.Rand) int64) {
	f := open(t, o)
	var arrays []*tier.Array
	var content [][]byte
	for refused := 0; refused < 4; {
		a, err := f.store.NewArray("", size(r))
		if err != nil {
			if !errors.Is(err, tier.ErrNoRoom) {
				t.Fatal(err)
			}
			refused++
			continue
		}
		arrays, content = append(arrays, a), append(content, testkit.RandomBytes(int(a.Bytes()), r.Uint64()))
		testkit.OK(t, a.WriteAt(ctx, content[len(content)-1], 0))
	}
	if len(arrays) < 2 {
		t.Fatalf("%d arrays in %+v", len(arrays), o)
	}
	for range 80 {
		i := r.IntN(len(arrays))
		if r.IntN(3) == 0 {
			got := make([]byte, arrays[i].Bytes())
			testkit.OK(t, arrays[i].ReadAt(ctx, got, 0))
			if !bytes.Equal(got, content[i]) {
				t.Fatalf("array %d has another content", i)
			}
			continue
		}
		var accesses []tier.Access
		var which []int
		left, mode := o.DeviceBytes, r.IntN(4)
		for _, i := range r.Perm(len(arrays)) {
			a := arrays[i]
			if left -= (a.Bytes() + 4095) &^ 4095; left < 0 {
				break
			}
			which = append(which, i)
			accesses = append(accesses, []func(*tier.Array) tier.Access{tier.Read, tier.Write, tier.Overwrite, tier.Overwrite}[mode](a))
		}
		if len(which) == 0 {
			continue
		}
		l := f.use(accesses...)
		for _, i := range which {
			a := arrays[i]
			if mode < 2 {
				got := make([]byte, a.Bytes())
				testkit.OK(t, f.stream.CopyD2H(got, l.Ptr(a)))
				testkit.OK(t, f.stream.Synchronize())
				if !bytes.Equal(got, content[i]) {
					t.Fatalf("array %d has another content", i)
				}
			}
			if mode > 0 {
				v := byte(r.Uint32())
				testkit.OK(t, f.stream.Memset(l.Ptr(a), v, a.Bytes()))
				fill(content[i], v)
			}
		}
		testkit.OK(t, l.Release())
	}
	if got := f.store.PeakHostBytes(); got > o.HostBytes {
		t.Errorf("%d bytes of host memory, the budget is %d", got, o.HostBytes)
	}
}

// Arrays that are overwritten keep their old content below until they are. Where both do
// not fit, the content moves up instead.
func TestOverwriteFull(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 4 * mib, HostBytes: 4 * mib})
	var arrays []*tier.Array
	for i := range 7 {
		a := f.array(fmt.Sprint(i), mib)
		arrays = append(arrays, a)
		testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, mib), 0))
	}
	for range 3 {
		for _, list := range [][]*tier.Array{arrays[:4], arrays[3:]} {
			var all []tier.Access
			for _, a := range list {
				all = append(all, tier.Overwrite(a))
			}
			l := f.use(all...)
			for _, a := range list {
				testkit.OK(t, f.stream.Memset(l.Ptr(a), 9, mib))
			}
			testkit.OK(t, l.Release())
		}
	}
	for _, a := range arrays {
		if got := f.read(a); !bytes.Equal(got, bytes.Repeat([]byte{9}, mib)) {
			t.Errorf("%v: %d", a, got[0])
		}
	}
}

// A use that waits for memory of the pool gets it when others give some back, though
// nobody releases an array.
func TestWaitsForPool(t *testing.T) {
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Budget: 32 * mib})
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, pool.Close()) })
	f := openOn(t, dev, tier.Options{Pool: pool, HostBytes: 64 * mib})
	other, err := pool.Alloc(ctx, 20*mib, vram.Use{Stream: f.stream})
	testkit.OK(t, err)
	a, b := f.array("a", 4*mib), f.array("b", 16*mib)
	l := f.use(tier.Overwrite(a))
	refused := pool.Stats().OutOfMemory
	got := make(chan error, 1)
	go func() {
		l, err := f.store.Use(ctx, f.stream, tier.Overwrite(b))
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	testkit.Eventually(t, "the pool has no memory", func() bool { return pool.Stats().OutOfMemory > refused })
	testkit.OK(t, other.Free())
	testkit.OK(t, testkit.Receive(t, "the use", got))
	testkit.OK(t, l.Release())

	// Without anybody to wait for, it fails, and says why.
	other, err = pool.Alloc(ctx, 20*mib, vram.Use{Stream: f.stream})
	testkit.OK(t, err)
	_, err = f.store.Use(ctx, f.stream, tier.Overwrite(b))
	testkit.WantError(t, "the pool is others'", err, tier.ErrNoRoom, "the use needs 16 MiB")
	testkit.WantError(t, "the pool is others'", err, device.ErrOutOfMemory, "20 MiB")
	testkit.OK(t, other.Free())
	testkit.OK(t, f.use(tier.Overwrite(b)).Release())
}

// late is a device on which copies turn out to have failed when somebody waits for them,
// and not before a gate opens.
type late struct {
	device.Wrapper
	gate chan error
}

func (d *late) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := d.Device.NewEvent(flags)
	return &lateEvent{device.EventWrapper{Event: e}, d}, err
}

type lateEvent struct {
	device.EventWrapper
	d *late
}

func (e *lateEvent) Synchronize() error { return errors.Join(<-e.d.gate, e.Event.Synchronize()) }

// A read by the host that waits for a write that is lost says so, once.
func TestLostWhileReading(t *testing.T) {
	dev := &late{device.Wrapper{Device: devicetest.Open(t)}, make(chan error)}
	f := openOn(t, dev, tier.Options{DeviceBytes: 4 * mib, HostBytes: 4 * mib})
	a := f.array("a", mib)
	testkit.OK(t, a.WriteAt(ctx, bytes.Repeat([]byte{1}, mib), 0))
	f.fill(tier.Write(a), a, 2, 0, mib) // its content is still on its way up
	got, read := make([]byte, mib), make(chan error)
	go func() { read <- a.ReadAt(ctx, got, 0) }()
	testkit.Eventually(t, "the read waits", func() bool { return errors.Is(a.WriteAt(ctx, nil, 0), tier.ErrInUse) })
	dev.gate <- errFault
	err := testkit.Receive(t, "the read", read)
	close(dev.gate)
	testkit.WantError(t, "the read", err, tier.ErrLost)
	testkit.WantError(t, "the read", err, errFault)
	testkit.OK(t, a.ReadAt(ctx, got, 0))
	if !bytes.Equal(got, bytes.Repeat([]byte{1}, mib)) {
		t.Errorf("%d, want what was there before", got[0])
	}
}

// Reads on ever new streams leave no trace once they are over.
func TestManyStreams(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 4 * mib, HostBytes: 4 * mib})
	a := f.array("", mib)
	for range 50 {
		stream, err := f.dev.NewStream()
		testkit.OK(t, err)
		l, err := f.store.Use(ctx, stream, tier.Read(a))
		testkit.OK(t, err)
		testkit.OK(t, l.Release())
		testkit.OK(t, stream.Synchronize())
		testkit.OK(t, stream.Close())
	}
	if n := a.Marks(); n > 1 {
		t.Errorf("%d events of work that is over", n)
	}
}
