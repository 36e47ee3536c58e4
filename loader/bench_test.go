package loader_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

var (
	benchPrefetch = flag.Int("prefetch", 0, "Prefetch of BenchmarkMemory")
	benchBuffers  = flag.Int("buffers", 0, "DeviceBuffers of BenchmarkMemory")
	benchWorkers  = flag.Int("workers", 0, "Workers of BenchmarkMemory")
)

// BenchmarkMemory is epochs of 10,000 shuffled samples of 256 f32 in batches
// of 128, from memory to the device.
func BenchmarkMemory(b *testing.B) {
	dev := devicetest.Open(b)
	data := make([]float32, 10_000*256)
	for i := range data {
		data[i] = rand.Float32()
	}
	ds, err := dataset.NewMemoryOf(data, []int{256}, dataset.MemoryOptions{})
	testkit.OK(b, err)
	ld, err := loader.New(dev, ds, loader.Options{
		Batch: 128, Shuffle: true, Epochs: b.N + 1,
		Workers: *benchWorkers, Prefetch: *benchPrefetch, DeviceBuffers: *benchBuffers,
	})
	testkit.OK(b, err)
	defer ld.Close()
	epoch := func() {
		for batch, err := range ld.Epoch(b.Context()) {
			testkit.OK(b, err)
			testkit.OK(b, batch.Release())
		}
	}
	epoch() // the first warms up
	b.ResetTimer()
	for range b.N {
		epoch()
	}
}
