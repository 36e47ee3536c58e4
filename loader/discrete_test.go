package loader_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
)

// discrete is a device behind a link, with calls that fail when a test says so.
type discrete struct {
	*devicetest.Discrete
	device.Caller // of the device inside

	mu     sync.Mutex
	calls  int // of what makes something
	failAt int // the call that fails; 0: none
	queued func(fn func() error) func() error
}

func newDiscrete(t testing.TB, capacity int64) *discrete {
	t.Helper()
	d := devicetest.OpenDiscrete(t, capacity)
	return &discrete{Discrete: d, Caller: devicetest.As[device.Caller](t, d)}
}

// pinned is how many bytes are pinned now, and most how many were at most.
func (d *discrete) pinned() int64 { now, _ := d.PinnedBytes(); return now }
func (d *discrete) most() int64   { _, most := d.PinnedBytes(); return most }

var errInjected = errors.New("the driver said no")

func (d *discrete) fault() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.calls == d.failAt {
		return errInjected
	}
	return nil
}

// made counts what was made so far: allocations, streams, events, pins.
func (d *discrete) made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

func (d *discrete) Alloc(n int64) (device.Ptr, error) {
	if err := d.fault(); err != nil {
		return 0, err
	}
	return d.Discrete.Alloc(n)
}

func (d *discrete) NewStream() (device.Stream, error) {
	if err := d.fault(); err != nil {
		return nil, err
	}
	return d.Discrete.NewStream()
}

func (d *discrete) NewEvent(flags device.EventFlags) (device.Event, error) {
	if err := d.fault(); err != nil {
		return nil, err
	}
	return d.Discrete.NewEvent(flags)
}

func (d *discrete) Call(s device.Stream, fn func() error) error {
	if d.queued != nil {
		fn = d.queued(fn)
	}
	return d.Caller.Call(s, fn)
}

func (d *discrete) Pin(b []byte, flags device.PinFlags) error {
	if err := d.fault(); err != nil {
		return err
	}
	return d.Discrete.Pin(b, flags)
}

// unpinnable is a device with a link that cannot pin.
type unpinnable struct {
	device.Device
	device.Caller
}

func (u unpinnable) Info() device.Info {
	info := u.Device.Info()
	info.Integrated, info.ID = false, "unpinnable"
	return info
}

// large is a dataset whose batches of 8 are more than a megabyte.
func large() *fake { return unsteady(images(19, 256, 256, 3)) }

// With a link in between slabs are pinned where that is possible; the batches
// are the same in any case.
func TestDiscrete(t *testing.T) {
	for _, ds := range []*fake{large(), unsteady(table(19, dtype.I64, 256, 96))} {
		ref := newReference(t, ds)
		o := loader.Options{Batch: 8, Workers: 2, Epochs: 2, Prefetch: 2, DeviceBuffers: 2}
		if ds.spec.DType == dtype.U8 {
			o.DType = dtype.U8 // the quickest to work out
		}
		want := ref.batches(o, ref.inOrder(2))
		for _, c := range []struct {
			name   string
			pin    loader.Pinning
			limit  int64
			pinned bool
		}{
			{"auto", loader.PinAuto, 0, true},
			{"always", loader.PinAlways, 0, true},
			{"never", loader.PinNever, 0, false},
			// PinAuto does not pin "where the system allows no more locked
			// memory", but works.
			{"auto, nothing can be locked", loader.PinAuto, 1, false},
			{"never, nothing can be locked", loader.PinNever, 1, false},
			{"auto, something can be locked", loader.PinAuto, 9 << 20, true},
		} {
			t.Run(fmt.Sprint(ds.spec, " ", c.name), func(t *testing.T) {
				dev := newDiscrete(t, 64<<20)
				leavesNothing(t, dev)
				dev.PinLimit = c.limit
				o := o
				o.Pin = c.pin
				ld := start(t, dev, ds, o)
				s := ld.Stats()
				if s.Pinned != c.pinned || s.Pinned == (s.PageableWhy != "") {
					t.Errorf("pinned %t because %q, want %t", s.Pinned, s.PageableWhy, c.pinned)
				}
				if s.Slabs > 3 || s.Slabs < 1 || c.limit == 0 && s.Slabs != 3 {
					t.Errorf("%d slabs", s.Slabs)
				}
				list, err := drain(t, dev, ld)
				testkit.OK(t, err)
				compare(t, c.name, list, want)
				if s := ld.Stats(); !c.pinned && dev.most() != s.StagingBytes || c.pinned && dev.most() == 0 {
					t.Errorf("%d bytes were pinned, %d of them for staging", dev.most(), s.StagingBytes)
				}
			})
		}
	}
}

// A device that cannot pin is fed from pageable memory.
func TestCannotPin(t *testing.T) {
	dev := open(t, "host:64MiB")
	leavesNothing(t, dev)
	u := unpinnable{dev, devicetest.As[device.Caller](t, dev)}
	ds := large()
	ref := newReference(t, ds)
	o := loader.Options{Batch: 8, DType: dtype.U8}
	ld := start(t, u, ds, o)
	if s := ld.Stats(); s.Pinned || !strings.Contains(s.PageableWhy, "unpinnable") {
		t.Errorf("%+v", s)
	}
	list, err := drain(t, dev, ld)
	testkit.OK(t, err)
	compare(t, "pageable", list, ref.batches(o, ref.inOrder(1)))

	_, err = loader.New(u, ds, loader.Options{Pin: loader.PinAlways})
	testkit.WantError(t, "PinAlways", err, device.ErrNotSupported)
}

// The budget bounds what is pinned: too small for a slab it is an error, and
// with room for two there are two.
func TestPinBudget(t *testing.T) {
	ds := images(24, 64, 64, 1) // 4 KiB each
	ref := newReference(t, ds)
	const slab, epochs = 9 * 4096, 50 // labels take a page of their own; and enough to pin for
	for _, pin := range []loader.Pinning{loader.PinAlways, loader.PinAuto} {
		o := loader.Options{Batch: 8, Pin: pin, PinBudget: slab - 1, Epochs: epochs}
		_, err := loader.New(newDiscrete(t, 64<<20), ds, o)
		testkit.WantError(t, "a budget below one slab", err, pinned.ErrBudget)
		refuses(t, open(t, "host:64MiB"), ds, o, pinned.ErrBudget, "one batch of 8 samples takes 36 KiB")
		o.Epochs = 1 // too little to pin for
		refuses(t, newDiscrete(t, 64<<20), ds, o, pinned.ErrBudget, "PinBudget is")
		o.Epochs = epochs
		for _, slabs := range []int64{1, 2} {
			o.PinBudget = slabs * slab
			dev := newDiscrete(t, 64<<20)
			leavesNothing(t, dev)
			ld := start(t, dev, ds, o)
			if s := ld.Stats(); s.Slabs != int(slabs) || !s.Pinned || s.HostBytes != slabs*int64(copied(ds.spec, 8)) {
				t.Errorf("a budget of %d slabs: %+v", slabs, s)
			}
			list, err := drain(t, dev, ld)
			testkit.OK(t, err)
			compare(t, "within the budget", list, ref.batches(o, ref.inOrder(epochs)))
			within(t, "Close", ld.Close)
			if dev.most() > o.PinBudget {
				t.Errorf("%d bytes were pinned, the budget is %d", dev.most(), o.PinBudget)
			}
		}
	}
	_, err := loader.New(newDiscrete(t, 64<<20), ds, loader.Options{Pin: loader.PinAlways, PinBudget: -1})
	testkit.WantError(t, "a negative budget", err, device.ErrArgument)
}

// Whichever call of the driver fails while a loader is made, the error is told
// and nothing is left behind.
func TestNewFailing(t *testing.T) {
	for _, pin := range []loader.Pinning{loader.PinAlways, loader.PinNever} {
		dev := newDiscrete(t, 64<<20)
		leavesNothing(t, dev)
		ds := images(24, 64, 64, 3)
		failed := 0
		for at := 1; ; at++ {
			dev.calls, dev.failAt = 0, at
			ld, err := loader.New(dev, ds, loader.Options{Batch: 8, Pin: pin, PinBudget: 1 << 20})
			if err == nil {
				within(t, "Close", ld.Close)
				break
			}
			failed++
			testkit.WantError(t, fmt.Sprintf("call %d", at), err, errInjected)
			if dev.pinned() != 0 {
				t.Fatalf("call %d: %d bytes are still pinned", at, dev.pinned())
			}
		}
		if failed < 5 {
			t.Errorf("only %d calls could fail", failed)
		}
	}
}

// Work that fails on the device surfaces in Next, behind the batches that
// arrived, and again in each later Next.
func TestDeviceFailing(t *testing.T) {
	for _, pin := range []loader.Pinning{loader.PinAlways, loader.PinNever} {
		dev := newDiscrete(t, 64<<20)
		leavesNothing(t, dev)
		n := 0
		dev.queued = func(fn func() error) func() error {
			if n++; n == 3 {
				return func() error { return errInjected }
			}
			return fn
		}
		ld, err := loader.New(dev, images(19, 64, 64, 3), loader.Options{Batch: 4, Pin: pin, DeviceBuffers: 1})
		testkit.OK(t, err)
		list, err := drain(t, dev, ld)
		testkit.WantError(t, "Next", err, errInjected)
		if len(list) != 2 {
			t.Errorf("%d batches before the one that failed, want 2", len(list))
		}
		_, err = next(t, ld)
		testkit.WantError(t, "Next again", err, errInjected)
		if err := ld.Close(); err != nil {
			testkit.WantError(t, "Close", err, errInjected)
		}
	}
}
