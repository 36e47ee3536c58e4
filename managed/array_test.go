package managed_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/managed"
)

// What the host writes the device reads, and the other way round, wherever the
// pages are.
func TestArray(t *testing.T) {
	dev := devicetest.Open(t)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	const n = 300_001
	a, err := managed.New[float32](dev, n, managed.Options{Advice: device.Advice{HostReads: true}})
	testkit.OK(t, err)
	if a.Len() != n || a.Bytes() != 4*n {
		t.Errorf("%d elements, %d bytes", a.Len(), a.Bytes())
	}
	data, err := a.Slice()
	testkit.OK(t, err)
	for i := range data {
		data[i] = float32(i)
	}
	p, err := a.Ptr()
	testkit.OK(t, err)
	b, err := managed.New[float32](dev, n, managed.Options{})
	testkit.OK(t, err)
	q, err := b.Ptr()
	testkit.OK(t, err)
	testkit.OK(t, a.Prefetch(s, device.OnDevice))
	testkit.OK(t, b.Advise(device.Advice{Preferred: device.OnDevice}))
	testkit.OK(t, s.CopyD2D(q, p, a.Bytes()))
	testkit.OK(t, b.Prefetch(s, device.OnHost))
	testkit.OK(t, s.Synchronize())
	back, err := b.Slice()
	testkit.OK(t, err)
	for i, v := range back {
		if v != float32(i) {
			t.Fatalf("element %d is %v", i, v)
		}
	}
	r, err := b.Residency()
	testkit.OK(t, err)
	if r.HostBytes != -1 && (r.HostBytes <= 0 || r.HostBytes > b.Bytes()) {
		t.Errorf("%+v", r)
	}
	testkit.OK(t, a.Free())
	testkit.OK(t, b.Free())
}

// After Free everything but Free fails.
func TestFreed(t *testing.T) {
	dev := devicetest.Open(t)
	before, err := dev.Memory()
	testkit.OK(t, err)
	a, err := managed.New[int64](dev, 1000, managed.Options{})
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	testkit.OK(t, a.Free())
	testkit.OK(t, a.Free())
	_, err = a.Slice()
	testkit.WantError(t, "Slice", err, device.ErrClosed)
	_, err = a.Ptr()
	testkit.WantError(t, "Ptr", err, device.ErrClosed)
	_, err = a.Residency()
	testkit.WantError(t, "Residency", err, device.ErrClosed)
	testkit.WantError(t, "Prefetch", a.Prefetch(s, device.OnDevice), device.ErrClosed)
	testkit.WantError(t, "Advise", a.Advise(device.Advice{}), device.ErrClosed)
	if after, err := dev.Memory(); dev.Info().Backend == "host" && after != before {
		t.Errorf("memory was %+v, is %+v, %v", before, after, err)
	}
	if a.Len() != 1000 || a.Bytes() != 8000 {
		t.Errorf("it had %d elements, %d bytes", a.Len(), a.Bytes())
	}
}

// Use and Free at once are an error or work, and nothing else.
func TestFreeWhileUsed(t *testing.T) {
	dev := devicetest.Open(t)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	for range 50 {
		a, err := managed.New[uint8](dev, 1<<16, managed.Options{})
		testkit.OK(t, err)
		var all sync.WaitGroup
		for _, use := range []func() error{
			func() error { return a.Prefetch(s, device.OnDevice) },
			func() error { return a.Advise(device.Advice{ReadMostly: true}) },
			func() error { _, err := a.Residency(); return err },
			a.Free,
		} {
			all.Go(func() {
				if err := use(); err != nil && !errors.Is(err, device.ErrClosed) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestRefused(t *testing.T) {
	dev, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	for _, n := range []int{0, -1, math.MaxInt} {
		_, err := managed.New[float64](dev, n, managed.Options{})
		testkit.WantError(t, "an odd number of elements", err, device.ErrArgument)
	}
	_, err = managed.New[float64](dev, 1, managed.Options{Advice: device.Advice{Preferred: device.OnAnother}})
	testkit.WantError(t, "advice that nobody can take", err, device.ErrArgument)
	_, err = managed.New[float64](dev, 1<<18, managed.Options{})
	testkit.WantError(t, "more than there is room for", err, device.ErrOutOfMemory, "262144 elements of 8 bytes", "2 MiB")
	a, err := managed.New[float64](dev, 1<<18, managed.Options{Oversubscribe: true})
	testkit.OK(t, err)
	testkit.OK(t, a.Free())
	_, err = managed.New[float64](plain{dev}, 1, managed.Options{})
	testkit.WantError(t, "a device without managed memory", err, device.ErrNotSupported)
	if memory, err := dev.Memory(); err != nil || memory.FreeBytes != 1<<20 {
		t.Errorf("%+v, %v", memory, err)
	}
}

// plain hides the abilities of a device.
type plain struct{ device.Device }
