package checkpoint

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// How the work is cut, for the checkpoint that PINION_BENCH_MODEL names, which
// bench/weights generates.
func BenchmarkLoad(b *testing.B) {
	path := os.Getenv("PINION_BENCH_MODEL")
	if path == "" {
		b.Skip("PINION_BENCH_MODEL names no checkpoint")
	}
	ck := testkit.Must(safetensors.Open(path))(b)
	defer ck.Close()
	dev := devicetest.Open(b)
	target := Target{Engine: testkit.Must(transfer.New(dev, transfer.Options{Copiers: 16}))(b)}
	defer target.Engine.Close()
	bench := func(name string, load func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(ck.Bytes())
			for b.Loop() {
				testkit.OK(b, load())
				b.StopTimer()
				time.Sleep(20 * time.Millisecond) // the driver clears what was freed
				b.StartTimer()
			}
		})
	}
	for _, parallel := range []int{2, 3, 4, 6} {
		l := defaultLimits
		l.parallel = parallel
		for _, step := range []int64{1 << 30, 2 << 30, 1 << 40} {
			l.step = step
			bench(fmt.Sprintf("parallel=%d/step=%dMiB", parallel, step>>20), func() error {
				w, err := Load(b.Context(), ck, Options{limits: l}, target)
				b.StopTimer()
				defer b.StartTimer()
				if err == nil {
					err = w.Close()
				}
				return err
			})
		}
		l.step = defaultLimits.step
		for _, staging := range []int64{64 << 20, 128 << 20, 256 << 20} {
			l.staging = staging
			bench(fmt.Sprintf("parallel=%d/cast=%dMiB", parallel, staging>>20), func() error {
				w, err := Load(b.Context(), ck, Options{Floats: dtype.F16, limits: l}, target)
				if err == nil {
					err = w.Close()
				}
				return err
			})
		}
		for _, buffers := range []int{2, 3, 4} {
			bench(fmt.Sprintf("parallel=%d/stream=%d", parallel, buffers), func() error {
				for _, err := range Stream(b.Context(), ck, StreamOptions{Options: Options{limits: l}, Buffers: buffers}, target) {
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}
