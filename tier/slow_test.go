package tier_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// slow is a device behind a link on which a copy takes its time.
type slow struct {
	device.Wrapper
	rate float64 // bytes a second, each way
	call device.Caller
}

func (d *slow) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &slowStream{device.StreamWrapper{Stream: s}, d}, err
}

type slowStream struct {
	device.StreamWrapper
	d *slow
}

func (s *slowStream) wait(n int) error {
	return s.d.call.Call(s.Stream, func() error {
		time.Sleep(time.Duration(float64(n) / s.d.rate * 1e9))
		return nil
	})
}

func (s *slowStream) CopyH2D(dst device.Ptr, src []byte) error { return s.wait(len(src)) }
func (s *slowStream) CopyD2H(dst []byte, src device.Ptr) error { return s.wait(len(dst)) }

// heldUp is a device on which copies to the device wait for a gate.
type heldUp struct {
	device.Wrapper
	call device.Caller
	gate atomic.Pointer[chan struct{}]
}

func (d *heldUp) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &heldStream{device.StreamWrapper{Stream: s}, d}, err
}

type heldStream struct {
	device.StreamWrapper
	d *heldUp
}

func (s *heldStream) CopyH2D(dst device.Ptr, src []byte) error {
	gate := *s.d.gate.Load()
	return errors.Join(s.d.call.Call(s.Stream, func() error { <-gate; return nil }), s.Stream.CopyH2D(dst, src))
}

// A program that runs ahead of the device has half a window brought in ahead, once a
// window of copies that it asked for is under way.
func TestHalfWindow(t *testing.T) {
	const slots, n, window = 16, 64 << 10, 4
	inner := devicetest.Open(t)
	call, ok := device.As[device.Caller](inner)
	if !ok {
		t.Skip("streams of the device run no functions")
	}
	dev := &heldUp{Wrapper: device.Wrapper{Device: inner}, call: call}
	open, shut := make(chan struct{}), make(chan struct{})
	close(open)
	dev.gate.Store(&open)
	f := openOn(t, dev, tier.Options{DeviceBytes: slots * n, HostBytes: (4*slots + 1) * n, WindowBytes: window * n})
	arrays := make([]*tier.Array, 4*slots)
	for i := range arrays {
		arrays[i] = f.array("", n)
		testkit.OK(t, arrays[i].WriteAt(ctx, []byte{1}, 0))
	}
	f.store.Sequential(arrays...)
	for _, a := range arrays[:slots] {
		testkit.OK(t, f.use(tier.Read(a)).Release())
	}
	testkit.OK(t, f.stream.Synchronize())
	testkit.Eventually(t, "the window is full", func() bool { return f.store.Stats().AheadBytes == window*n })
	dev.gate.Store(&shut)
	for i, a := range arrays[slots : 2*slots] {
		testkit.OK(t, f.use(tier.Read(a)).Release())
		if ahead := f.store.Stats().AheadBytes; i > 3*window && ahead > window/2*n {
			t.Errorf("after %d uses beyond the device, %d bytes are ahead, of a window of %d", i+1, ahead, window*n)
		}
	}
	close(shut)
	testkit.OK(t, f.stream.Synchronize())
}

// BenchmarkSlowLink sweeps over four times the budget on a link of 1 GB/s each way, with
// steps that compute for no time, for half as long as a copy takes, and half as long
// again. What is less busy should hide behind what is busier: link/op is the share of
// the link's rate that copies to the device had, computing/op that of the time.
func BenchmarkSlowLink(b *testing.B) {
	const slots, n = 64, 2 * mib
	for _, compute := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond} {
		for _, access := range []struct {
			name string
			of   func(*tier.Array) tier.Access
		}{{"read", tier.Read}, {"write", tier.Write}} {
			b.Run(fmt.Sprintf("%s, computing %v", access.name, compute), func(b *testing.B) {
				inner := devicetest.Open(b)
				dev := &slow{Wrapper: device.Wrapper{Device: inner}, rate: 1e9, call: devicetest.As[device.Caller](b, inner)}
				f := openOn(b, dev, tier.Options{DeviceBytes: slots * n, HostBytes: (4*slots + 1) * n, WindowBytes: 2 * n})
				arrays := make([]*tier.Array, 4*slots)
				for i := range arrays {
					arrays[i] = f.array("", n)
					testkit.OK(b, arrays[i].WriteAt(ctx, []byte{1}, 0))
				}
				f.store.Sequential(arrays...)
				round := func() {
					for _, a := range arrays {
						l := f.use(access.of(a))
						testkit.OK(b, dev.call.Call(f.stream.(*slowStream).Stream, func() error { time.Sleep(compute); return nil }))
						testkit.OK(b, l.Release())
					}
				}
				round()
				testkit.OK(b, f.stream.Synchronize())
				before, start, rounds := f.store.Stats(), time.Now(), 0
				for b.Loop() {
					round()
					rounds++
				}
				testkit.OK(b, f.stream.Synchronize())
				took := time.Since(start).Seconds()
				b.ReportMetric(float64(f.store.Stats().FilledBytes-before.FilledBytes)/dev.rate/took, "link/op")
				b.ReportMetric(compute.Seconds()*float64(rounds*len(arrays))/took, "computing/op")
			})
		}
	}
}
