package tier_test

import (
	"fmt"
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

// BenchmarkMiss is a use of an array that another one leaves the device for, with so
// many arrays of 4 KiB, half of which fit; written or only read.
func BenchmarkMiss(b *testing.B) {
	for _, n := range []int{1000, 20000} {
		for _, write := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d arrays, write %v", n, write), func(b *testing.B) {
				bytes := int64(n) * 4096
				f := open(b, tier.Options{DeviceBytes: bytes / 2, HostBytes: bytes + mib})
				arrays := make([]*tier.Array, n)
				for i := range arrays {
					arrays[i] = f.array("", 4096)
					testkit.OK(b, arrays[i].WriteAt(ctx, []byte{1}, 0))
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					access := tier.Read(arrays[i%n])
					if write {
						access = tier.Write(arrays[i%n])
					}
					testkit.OK(b, f.use(access).Release())
					i++
				}
			})
		}
	}
}
