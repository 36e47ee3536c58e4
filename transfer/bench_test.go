package transfer_test

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
)

// The paths by size, on the device that PINION_DEVICE names. On the host
// backend staging is pure loss; there the figures show the engine's own cost.
func BenchmarkCopy(b *testing.B) {
	const most = 256 << 20
	f := open(b)
	p := f.Alloc(most)
	pageable := make([]byte, most)
	fill(pageable, 1)
	for _, path := range []struct {
		name    string
		host    func() []byte
		options transfer.Options
		least   int64
	}{
		{"pageable", func() []byte { return pageable }, transfer.Options{StageAbove: most}, 0},
		{"staged", func() []byte { return pageable }, transfer.Options{StageAbove: 1}, 64 << 10},
		{"pinned", func() []byte { return f.PinnedMemory(most) }, transfer.Options{}, 0},
	} {
		b.Run(path.name, func(b *testing.B) {
			host := path.host()
			e := f.Engine(path.options)
			for _, n := range []int64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, most} {
				if n < path.least {
					continue
				}
				for _, toHost := range []bool{false, true} {
					c := transfer.Copy{Host: host[:n], Device: p, ToHost: toHost}
					b.Run(fmt.Sprintf("%s/%s", direction(toHost), units.ExactBytes(n)), func(b *testing.B) {
						b.SetBytes(n)
						b.ReportAllocs()
						for b.Loop() {
							if err := e.Do(ctx, c); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		})
	}
}

func direction(toHost bool) string {
	if toHost {
		return "d2h"
	}
	return "h2d"
}
