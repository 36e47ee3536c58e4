package tier_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

func TestBadOptions(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []tier.Options{{DeviceBytes: -1}, {FarBytes: -1}, {WindowBytes: -1}, {DeviceBytes: mib, WindowBytes: mib}} {
		_, err := tier.New(dev, o)
		testkit.WantError(t, "options", err, device.ErrArgument)
	}
	_, err := tier.New(nil, tier.Options{})
	testkit.WantError(t, "no device", err, device.ErrArgument)
}

func TestBadUses(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 64 * mib, HostBytes: 128 * mib})
	a, b := f.array("a", 40*mib), f.array("b", 40*mib)
	other := open(t, tier.Options{DeviceBytes: 64 * mib, HostBytes: mib})
	foreign := other.array("foreign", mib)
	use := func(x ...tier.Access) error {
		l, err := f.store.Use(ctx, f.stream, x...)
		if err == nil {
			testkit.OK(t, l.Release())
		}
		return err
	}
	testkit.WantError(t, "no arrays", use(), device.ErrArgument)
	testkit.WantError(t, "of another store", use(tier.Read(foreign)), device.ErrArgument)
	testkit.WantError(t, "no array", use(tier.Access{}), device.ErrArgument)
	testkit.WantError(t, "twice", use(tier.Read(a), tier.Read(a)), tier.ErrInUse, "twice")
	testkit.WantError(t, "too much", use(tier.Read(a), tier.Read(b)), tier.ErrBudget, "budget")
	_, err := f.store.NewArray("none", 0)
	testkit.WantError(t, "no bytes", err, device.ErrArgument)
	_, err = f.store.NewArray("big", 65*mib)
	testkit.WantError(t, "larger than the device", err, tier.ErrBudget)
	_, err = f.store.NewArray("huge", math.MaxInt64)
	testkit.WantError(t, "larger than anything", err, tier.ErrBudget)
	f.store.WillNeed(nil, foreign)
	f.store.DontNeed(nil, foreign)
	testkit.WantError(t, "outside", a.WriteAt(ctx, make([]byte, 2), 40*mib-1), device.ErrArgument)
	testkit.WantError(t, "outside", a.ReadAt(ctx, make([]byte, 2), -1), device.ErrArgument)

	w := f.use(tier.Write(a))
	testkit.WantError(t, "a second writer", use(tier.Write(a)), tier.ErrInUse, "written")
	testkit.WantError(t, "a reader beside a writer", use(tier.Read(a)), tier.ErrInUse, "written")
	testkit.WantError(t, "the host beside a writer", a.WriteAt(ctx, []byte{1}, 0), tier.ErrInUse)
	testkit.WantError(t, "free", a.Free(), tier.ErrInUse)
	testkit.OK(t, w.Release())
	testkit.WantError(t, "release twice", w.Release(), tier.ErrFreed)
	r1, r2 := f.use(tier.Read(a)), f.use(tier.Read(a))
	testkit.WantError(t, "a writer beside readers", use(tier.Overwrite(a)), tier.ErrInUse, "readers")
	if r1.Ptr(a) == 0 || r1.Ptr(a) != r2.Ptr(a) || r1.Ptr(b) != 0 {
		t.Errorf("%v %v %v", r1.Ptr(a), r2.Ptr(a), r1.Ptr(b))
	}
	testkit.OK(t, r1.Release())
	testkit.OK(t, r2.Release())

	testkit.OK(t, a.Free())
	testkit.WantError(t, "free twice", a.Free(), tier.ErrFreed)
	testkit.WantError(t, "after free", use(tier.Read(a)), tier.ErrFreed)
	testkit.WantError(t, "after free", a.ReadAt(ctx, make([]byte, 1), 0), tier.ErrFreed)
}

// What cannot fit in all tiers is refused at once, with what holds the rest.
func TestRefused(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 32 * mib, HostBytes: 32 * mib})
	for _, name := range []string{"q", "k", "v"} {
		f.array(name, 16*mib)
	}
	_, err := f.store.NewArray("more", 8*mib)
	var room *tier.RoomError
	if !errors.As(err, &room) || !errors.Is(err, tier.ErrNoRoom) {
		t.Fatal(err)
	}
	if room.Needs != 8*mib || room.Free > 0 || len(room.Levels) != 2 || room.Levels[1].Budget != 32*mib || len(room.Holders) != 3 {
		t.Errorf("%+v", room)
	}
	for _, want := range []string{`"more" needs 8 MiB, 0 B left`, "device", "host", `largest: "k" 16 MiB, "q" 16 MiB`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// Uses that wait for each other's leases end, however patient their contexts are.
func TestWaitLimit(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 32 * mib, HostBytes: 64 * mib, WaitLimit: 20 * time.Millisecond})
	a, b, c := f.array("a", 16*mib), f.array("b", 16*mib), f.array("c", 16*mib)
	held := []*tier.Lease{f.use(tier.Write(a)), f.use(tier.Write(b))}
	failed := make(chan error)
	var all sync.WaitGroup
	for _, l := range held {
		all.Go(func() {
			more, err := f.store.Use(ctx, f.stream, tier.Read(c))
			if err == nil {
				err = more.Release()
			} else {
				failed <- err
				err = nil
			}
			if err = errors.Join(err, l.Release()); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.WantError(t, "waiting", <-failed, tier.ErrNoRoom, "2 leases held", "nothing moved and no lease was released for 20ms")
	go func() { all.Wait(); close(failed) }()
	for err := range failed { // the other one may have been too late as well
		testkit.WantError(t, "waiting, too", err, tier.ErrNoRoom)
	}
	testkit.OK(t, f.use(tier.Read(c)).Release())
	if _, err := tier.New(f.dev, tier.Options{WaitLimit: -1}); !errors.Is(err, device.ErrArgument) {
		t.Error(err)
	}
}

// A context ends a wait for room, and says who has it.
func TestContextEnds(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 32 * mib, HostBytes: 64 * mib})
	a, b := f.array("a", 20*mib), f.array("b", 20*mib)
	l := f.use(tier.Write(a))
	over := f.untilWait(1)
	_, err := f.store.Use(over, f.stream, tier.Read(b))
	testkit.WantError(t, "waiting", err, context.Canceled, `"a" 20 MiB (in use)`, "1 use waited, 1 lease held: only a release makes room")
	_, err = f.store.Use(over, f.stream, tier.Read(b))
	testkit.WantError(t, "ended before", err, context.Canceled)
	time.AfterFunc(10*time.Millisecond, func() { testkit.OK(t, l.Release()) })
	testkit.OK(t, f.use(tier.Overwrite(b)).Release())
}

// Close ends waits, and gives everything back even where somebody holds an array.
func TestCloseInUse(t *testing.T) {
	dev := devicetest.Open(t)
	store, err := tier.New(dev, tier.Options{DeviceBytes: 32 * mib, HostBytes: 64 * mib})
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	defer stream.Close()
	a, err := store.NewArray("a", 20*mib)
	testkit.OK(t, err)
	b, err := store.NewArray("b", 20*mib)
	testkit.OK(t, err)
	l, err := store.Use(ctx, stream, tier.Write(a))
	testkit.OK(t, err)
	waits := make(chan error)
	go func() {
		_, err := store.Use(ctx, stream, tier.Read(b))
		waits <- err
	}()
	time.Sleep(10 * time.Millisecond)
	testkit.WantError(t, "close", store.Close(), tier.ErrInUse, `"a"`)
	testkit.WantError(t, "a wait", testkit.Receive(t, "the wait", waits), tier.ErrClosed)
	testkit.WantError(t, "release", l.Release(), tier.ErrClosed)
	testkit.OK(t, store.Close())
	_, err = store.NewArray("c", 1)
	testkit.WantError(t, "after close", err, tier.ErrClosed)
	_, err = store.Use(ctx, stream, tier.Read(a))
	testkit.WantError(t, "after close", err, tier.ErrClosed)
	testkit.WantError(t, "after close", a.ReadAt(ctx, make([]byte, 1), 0), tier.ErrClosed)
}

// gated is a device whose copies to the host wait until a gate opens.
type gated struct {
	device.Wrapper
	gate chan struct{}
}

func (d *gated) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &gatedStream{device.StreamWrapper{Stream: s}, d}, err
}

type gatedStream struct {
	device.StreamWrapper
	d *gated
}

func (s *gatedStream) CopyD2H(dst []byte, src device.Ptr) error {
	<-s.d.gate
	return s.Stream.CopyD2H(dst, src)
}

// Close ends what the host waits for, and does not call those arrays in use.
func TestCloseHostWaits(t *testing.T) {
	dev := &gated{device.Wrapper{Device: devicetest.Open(t)}, make(chan struct{})}
	store, err := tier.New(dev, tier.Options{DeviceBytes: 4 * mib, HostBytes: 8 * mib})
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	f := &fixture{t, dev, stream, store}
	waits := make(chan error, 4)
	for i := range cap(waits) {
		a := f.array(fmt.Sprint(i), mib)
		f.fill(tier.Overwrite(a), a, 1, 0, mib)
		go func() {
			if i%2 == 0 {
				waits <- a.ReadAt(ctx, make([]byte, 1), 0)
			} else {
				waits <- a.WriteAt(ctx, make([]byte, 1), 0)
			}
		}()
	}
	testkit.Eventually(t, "the host waits", func() bool { return store.Stats().WriteBacks == 4 })
	closed := make(chan error)
	go func() { closed <- store.Close() }()
	for range cap(waits) {
		testkit.WantError(t, "a wait", testkit.Receive(t, "a wait", waits), tier.ErrClosed)
	}
	close(dev.gate)
	testkit.OK(t, testkit.Receive(t, "close", closed))
	testkit.OK(t, stream.Close())
}
