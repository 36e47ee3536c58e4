package tier_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// BenchmarkUse is a use of an array that is on the device, among so many others, known
// beforehand or not.
func BenchmarkUse(b *testing.B) {
	for _, c := range []struct {
		name     string
		announce bool
	}{{"plain", false}, {"announced", true}} {
		b.Run(c.name, func(b *testing.B) {
			f := open(b, tier.Options{DeviceBytes: 64 * mib, HostBytes: 64 * mib})
			arrays := make([]*tier.Array, 1000)
			for i := range arrays {
				arrays[i] = f.array("", 4096)
			}
			if c.announce {
				f.store.Sequential(arrays...)
			}
			for _, a := range arrays {
				testkit.OK(b, f.use(tier.Read(a)).Release())
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				testkit.OK(b, f.use(tier.Read(arrays[i%1000])).Release())
				i++
			}
		})
	}
}

// BenchmarkMiss is a use of an array that another one leaves the device for.
func BenchmarkMiss(b *testing.B) {
	f := open(b, tier.Options{DeviceBytes: 4 * mib, HostBytes: 64 * mib})
	arrays := make([]*tier.Array, 2000)
	for i := range arrays {
		arrays[i] = f.array("", 4096)
		testkit.OK(b, arrays[i].WriteAt(ctx, make([]byte, 4096), 0))
	}
	f.store.Sequential(arrays...)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		testkit.OK(b, f.use(tier.Read(arrays[i%len(arrays)])).Release())
		i++
	}
}
