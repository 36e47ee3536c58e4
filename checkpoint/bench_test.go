package checkpoint

import (
	"fmt"
	"os"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
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
	for _, copiers := range []int{12, 16} {
		e := testkit.Must(transfer.New(dev, transfer.Options{Copiers: copiers}))(b)
		defer e.Close()
		for _, parallel := range []int{1, 2, 3, 4} {
			for _, step := range []int64{256 << 20, 1 << 30} {
				b.Run(fmt.Sprintf("copiers=%d/parallel=%d/step=%dMiB", copiers, parallel, step>>20), func(b *testing.B) {
					b.SetBytes(ck.Bytes())
					l := defaultLimits
					l.parallel, l.step = parallel, step
					for b.Loop() {
						w, err := Load(b.Context(), ck, Options{limits: l}, Target{Engine: e})
						testkit.OK(b, err)
						b.StopTimer()
						testkit.OK(b, w.Close())
						b.StartTimer()
					}
				})
			}
		}
	}
}
