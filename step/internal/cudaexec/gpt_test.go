package cudaexec

import (
	"errors"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
)

// nowhere gives out an address where there is no memory, but for little: what is planned
// there does not run.
type nowhere struct{ device.Device }

const elsewhere device.Ptr = 1 << 60

func (n nowhere) Alloc(bytes int64) (device.Ptr, error) {
	if bytes > 1<<20 {
		return elsewhere, nil
	}
	return n.Device.Alloc(bytes)
}

func (n nowhere) Free(p device.Ptr) error {
	if p == elsewhere {
		return nil
	}
	return n.Device.Free(p)
}

// BenchmarkPlanGPT compiles the step of a GPT that fills a device, for one, without running
// it: times, and what is predicted with an H200's rates.
func BenchmarkPlanGPT(b *testing.B) {
	e := openTest(b)
	speed := step.Speed{BytesPerSecond: 3.6e12, OpsPerSecond: 30e12, Multiplies: 325e12, Launch: 3e-6}
	c := models.GPT{Layers: 24, Width: 2048, Heads: 16, Batch: 16, Length: 1024, Vocabulary: 32768, Type: dtype.BF16}
	m := testkit.Must(c.Model())(b)
	memory := testkit.Must(step.OpenMemory(e.dev, nowhere{e.dev}))(b)
	defer memory.Close()
	for _, budget := range []int64{0, 137 << 30 / 10, 12 << 30, 1} {
		for _, link := range []float64{0, 50e9} {
			start := time.Now()
			x, err := step.Compile(m.Graph, e, step.Options{Budget: budget, Link: link, Speed: speed, Memory: memory, Donate: m.Donate, Lend: m.Lend, HostBytes: 1 << 30})
			var impossible *plan.ImpossibleError
			if errors.As(err, &impossible) {
				b.Logf("budget %d, link %g: %v (%v)", budget, link, err, time.Since(start))
				continue
			}
			testkit.OK(b, err)
			b.Logf("budget %d, link %g: compiled in %v\n%v", budget, link, time.Since(start), x.Plan())
			testkit.OK(b, x.Close())
			if budget == 0 {
				break
			}
		}
	}
}
