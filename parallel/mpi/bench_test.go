//go:build linux

package mpi

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/parallel"
)

func init() { programs["bench"] = withComm(runBench) }

// BenchmarkAllReduce is the median time of a sum of float32 over 4 ranks of this machine.
func BenchmarkAllReduce(b *testing.B) {
	for _, m := range []mpirun{openMPI, mpich} {
		b.Run(m.name, func(b *testing.B) {
			out, err := m.run(b, 4, "bench")
			if err != nil {
				b.Fatalf("%v\n%s", err, out)
			}
			for line := range strings.Lines(out) {
				var us float64
				var unit string
				if n, _ := fmt.Sscan(line, &us, &unit); n == 2 {
					b.ReportMetric(us, unit)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func runBench(c parallel.Comm) error {
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	const most = 64 << 20
	p, err := c.Device().Alloc(most)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		bytes int64
		name  string
		times int
	}{{8, "8B", 500}, {64 << 10, "64KiB", 200}, {most, "64MiB", 10}} {
		var times []float64
		for range x.times {
			began := time.Now()
			err := errors.Join(c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: x.bytes / 4}), s.Synchronize())
			if err != nil {
				return err
			}
			times = append(times, time.Since(began).Seconds()*1e6)
		}
		if c.Rank() == 0 {
			fmt.Printf("%.1f us/%s\n", stats.Median(times), x.name)
		}
	}
	return errors.Join(s.Close(), c.Device().Free(p))
}
