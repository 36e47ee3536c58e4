package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// A pipeline whose computing takes as long as a copy, on the device that
// PINION_DEVICE names: the case in which overlap gains most and is hardest.
//
//   - efficiency is the report's own: against the copies as they went.
//   - of-alone is against what copies and computing take each alone: what the
//     three cost each other counts as loss.
func BenchmarkPipeline(b *testing.B) {
	f := open(b)
	total := int64(2 << 30)
	if f.Dev.Device.Info().Integrated {
		total = 64 << 20
	}
	set, err := kernels.Load(f.Dev.Device)
	f.OK(err)
	b.Cleanup(func() { f.OK(set.Close()) })

	for _, c := range []struct {
		name    string
		memory  func(f *fixture, n int64) []byte
		buffers int
	}{
		{"pinned", (*fixture).PinnedMemory, 3},
		{"pinned-2-buffers", (*fixture).PinnedMemory, 2},
		{"pinned-serial", (*fixture).PinnedMemory, 1},
		{"pageable", (*fixture).Pages, 3},
		{"pageable-serial", (*fixture).Pages, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := &fixture{&transfertest.Fixture{TB: b, Dev: f.Dev, Stream: f.Stream}}
			e := f.Engine(transfer.Options{})
			in, out := c.memory(f, total), c.memory(f, total)
			fill(in, 1)
			fill(out, 2)
			p := pipeline.Pipeline{
				In: pipeline.Bytes(in), Out: pipeline.Bytes(out), Buffers: c.buffers,
				Compute: func(device.Stream, pipeline.Chunk) error { return nil },
			}
			warm, err := pipeline.Run(ctx, e, p)
			f.OK(err)
			chunk := warm.ChunkBytes

			// What each stage takes alone for one chunk.
			from, to := f.Alloc(chunk), f.Alloc(chunk)
			defer func() { f.OK(f.Dev.Free(from)); f.OK(f.Dev.Free(to)) }()
			copyIn := alone(func() { f.OK(e.H2D(ctx, from, in[:chunk])) })
			copyOut := alone(func() { f.OK(e.D2H(ctx, out[:chunk], to)) })
			work := chunk // bytes to cast: several times a chunk, or a part of one
			compute := func(s device.Stream, to, from device.Ptr, n int64) error {
				for left := work; left > 0; left -= n {
					if err := set.Cast(s, to, dtype.U8, from, dtype.I8, min(left, n)); err != nil {
						return err
					}
				}
				return nil
			}
			computing := func() {
				f.OK(compute(f.Stream, to, from, chunk))
				f.OK(f.Stream.Synchronize())
			}
			for range 2 { // the second time corrects for what a launch costs
				work = int64(float64(work) * float64(max(copyIn, copyOut)) / float64(alone(computing)))
			}
			each := alone(computing)
			longest := max(copyIn, each, copyOut)
			n := time.Duration(len(warm.Chunks))
			ideal := n*longest + copyIn + each + copyOut - longest

			p.Compute = func(s device.Stream, c pipeline.Chunk) error { return compute(s, c.Out, c.In, c.InBytes) }
			var efficiency, ofAlone []float64
			b.SetBytes(total)
			for b.Loop() {
				report, err := pipeline.Run(ctx, e, p)
				f.OK(err)
				efficiency = append(efficiency, report.Efficiency)
				ofAlone = append(ofAlone, float64(ideal)/float64(report.Wall))
			}
			b.ReportMetric(middle(efficiency), "efficiency")
			b.ReportMetric(middle(ofAlone), "of-alone")
			b.ReportMetric(float64(chunk), "chunk-bytes")
			b.ReportMetric(float64(longest.Microseconds()), "µs/stage")
		})
	}
}

// alone is the median time of fn, of those that are warm.
func alone(fn func()) time.Duration {
	var times []time.Duration
	for range 12 {
		start := time.Now()
		fn()
		times = append(times, time.Since(start))
	}
	return middle(times[2:])
}

func middle[T time.Duration | float64](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
