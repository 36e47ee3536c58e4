package transfer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
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
	if f.dev.Device.Info().Integrated {
		total = 64 << 20
	}
	set, err := kernels.Load(f.dev.Device)
	f.ok(err)
	b.Cleanup(func() { f.ok(set.Close()) })

	for _, c := range []struct {
		name    string
		memory  func(f *fixture, n int64) []byte
		buffers int
	}{
		{"pinned", (*fixture).pinnedMemory, 3},
		{"pinned-2-buffers", (*fixture).pinnedMemory, 2},
		{"pinned-serial", (*fixture).pinnedMemory, 1},
		{"pageable", (*fixture).pages, 3},
		{"pageable-serial", (*fixture).pages, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := &fixture{TB: b, dev: f.dev, stream: f.stream}
			e := f.engine(transfer.Options{})
			in, out := c.memory(f, total), c.memory(f, total)
			fill(in, 1)
			fill(out, 2)
			p := transfer.Pipeline{
				In: transfer.Bytes(in), Out: transfer.Bytes(out), Buffers: c.buffers,
				Compute: func(device.Stream, transfer.Chunk) error { return nil },
			}
			warm, err := e.Run(ctx, p)
			f.ok(err)
			chunk := warm.ChunkBytes

			// What each stage takes alone for one chunk.
			from, to := f.alloc(chunk), f.alloc(chunk)
			defer func() { f.ok(f.dev.Free(from)); f.ok(f.dev.Free(to)) }()
			copyIn := alone(func() { f.ok(e.H2D(ctx, from, in[:chunk])) })
			copyOut := alone(func() { f.ok(e.D2H(ctx, out[:chunk], to)) })
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
				f.ok(compute(f.stream, to, from, chunk))
				f.ok(f.stream.Synchronize())
			}
			for range 2 { // the second time corrects for what a launch costs
				work = int64(float64(work) * float64(max(copyIn, copyOut)) / float64(alone(computing)))
			}
			each := alone(computing)
			longest := max(copyIn, each, copyOut)
			n := time.Duration(len(warm.Chunks))
			ideal := n*longest + copyIn + each + copyOut - longest

			p.Compute = func(s device.Stream, c transfer.Chunk) error { return compute(s, c.Out, c.In, c.InBytes) }
			var efficiency, ofAlone []float64
			b.SetBytes(total)
			for b.Loop() {
				report, err := e.Run(ctx, p)
				f.ok(err)
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
