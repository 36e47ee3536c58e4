package nccl

import (
	"fmt"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
)

// BenchmarkCollectives times operations of all GPUs of this machine, queued one behind the
// other, with the sizes and the bus bandwidth of nccl-tests: the size is that of the larger
// buffer, and what goes over the bus is 2(n-1)/n of it for all-reduce, and (n-1)/n for the
// others.
//
//	queued  the operation, as a program calls it
//	graph   one captured operation, launched
func BenchmarkCollectives(b *testing.B) {
	ranks := int64(len(openDevices(b, 0)))
	for _, op := range []struct {
		name  string
		moves float64 // times the size
		queue func(c parallel.Comm, s device.Stream, p, q device.Ptr, size int64) error
	}{
		{"all-reduce", 2, func(c parallel.Comm, s device.Stream, p, q device.Ptr, size int64) error {
			return c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: q, Send: p, N: size / 4})
		}},
		{"all-gather", 1, func(c parallel.Comm, s device.Stream, p, q device.Ptr, size int64) error {
			return c.AllGather(s, parallel.Part{Recv: q, Send: p, N: size / ranks})
		}},
		{"reduce-scatter", 1, func(c parallel.Comm, s device.Stream, p, q device.Ptr, size int64) error {
			return c.ReduceScatter(s, dtype.F32, parallel.Sum, parallel.Part{Recv: q, Send: p, N: size / 4 / ranks})
		}},
	} {
		for _, size := range []int64{8, 1 << 20, 1 << 30} {
			if standIns.File != "" && size > 1<<20 || size/4 < ranks && op.moves == 1 {
				continue
			}
			for _, mode := range []string{"queued", "graph"} {
				if mode == "graph" && size > 8 {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/%s", op.name, units.Bytes(size), mode), func(b *testing.B) {
					devices := openDevices(b, 0)
					comms := testkit.Must(Local(devices...))(b)
					var took time.Duration // of rank 0
					testkit.OK(b, each(comms, func(c parallel.Comm) (err error) {
						t, err := measure(c, size, b.N, mode == "graph", op.queue)
						if c.Rank() == 0 {
							took = t
						}
						return err
					}))
					testkit.OK(b, each(comms, parallel.Comm.Close))
					each := took.Seconds() / float64(b.N)
					b.ReportMetric(each*1e6, "µs/op")
					b.ReportMetric(op.moves*float64(size)*float64(ranks-1)/float64(ranks)/each/1e9, "bus-GB/s")
					b.ReportMetric(0, "ns/op") // with the preparation
				})
			}
		}
	}
}

// measure is how long n operations of a rank take.
func measure(c parallel.Comm, size int64, n int, graph bool,
	queue func(c parallel.Comm, s device.Stream, p, q device.Ptr, size int64) error) (time.Duration, error) {
	dev := c.Device()
	s, err := dev.NewStream()
	if err != nil {
		return 0, err
	}
	var memory [2]device.Ptr
	for i := range memory {
		if memory[i], err = dev.Alloc(size); err == nil {
			err = s.Memset(memory[i], 0, size)
		}
		if err != nil {
			return 0, err
		}
	}
	launch := func() error { return queue(c, s, memory[0], memory[1], size) }
	release := func() error { return nil }
	for range 5 { // connects, and warms up
		if err := launch(); err != nil {
			return 0, err
		}
	}
	if graph {
		capturer, ok := device.As[device.Capturer](dev)
		if !ok {
			return 0, device.ErrNotSupported
		}
		g, err := capturer.Capture(s, launch)
		if err != nil {
			return 0, err
		}
		launch, release = func() error { return g.Launch(s) }, g.Close
	}
	if err := c.Barrier(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := launch(); err != nil {
			return 0, err
		}
	}
	if err := s.Synchronize(); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if err := release(); err != nil {
		return 0, err
	}
	for _, p := range memory {
		if err := dev.Free(p); err != nil {
			return 0, err
		}
	}
	return took, s.Close()
}
