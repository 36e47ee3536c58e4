package tier_test

import (
	"fmt"
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
