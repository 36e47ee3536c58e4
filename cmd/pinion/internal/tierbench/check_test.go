package tierbench

import (
	"testing"

	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A run that would take more host memory than there is does not begin.
func TestHostRoom(t *testing.T) {
	dev := devicetest.Open(t)
	o := Options{Budget: 4 << 20, ArrayBytes: 64 << 10, Ratios: []float64{0.5, 8}}
	testkit.OK(t, o.check(dev, 0)) // unknown
	testkit.OK(t, o.check(dev, 64<<20))
	testkit.WantError(t, "little", o.check(dev, 31<<20), sysmem.ErrMemory, "needs", "31 MiB")
}
