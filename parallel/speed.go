package parallel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/stats"
)

// Speed is how fast ranks are together, for estimates: an operation takes Latency, and
// what goes over the bus at the rate of the bus. That is 2(n-1)/n of the bytes of an
// all-reduce of n ranks, and (n-1)/n of the larger buffer of an all-gather or a
// reduce-scatter, as nccl-tests counts. The zero Speed is of operations that take no time.
type Speed struct {
	Latency time.Duration
	Bus     float64 // bytes a second; 0: the bus takes no time
}

// AllReduce is how long an all-reduce of so many bytes takes.
func (s Speed) AllReduce(bytes int64, ranks int) time.Duration { return s.takes(2, bytes, ranks) }

// AllGather is how long an all-gather takes, or a reduce-scatter, whose larger buffer has
// so many bytes.
func (s Speed) AllGather(bytes int64, ranks int) time.Duration { return s.takes(1, bytes, ranks) }

func (s Speed) takes(times float64, bytes int64, ranks int) time.Duration {
	if ranks < 2 || bytes <= 0 {
		return 0
	}
	d := s.Latency
	if s.Bus > 0 {
		over := times * float64(bytes) * float64(ranks-1) / float64(ranks)
		d += time.Duration(over / s.Bus * float64(time.Second))
	}
	return d
}

// Of a measurement of speed: the bytes of the smaller and of the larger all-reduce, and how
// often each runs, the first times to connect and to warm up.
const (
	smallest = 8
	largest  = 64 << 20
	warmups  = 3
	repeats  = 5
)

// MeasureSpeed times all-reduces of 8 bytes and of 64 MiB. All ranks call it, with nothing
// else queued, and get the same: the mean of what they measured. One rank alone has the zero
// Speed.
func MeasureSpeed(ctx context.Context, c Comm) (speed Speed, err error) {
	if c.Size() < 2 {
		return Speed{}, nil
	}
	dev := c.Device()
	s, err := dev.NewStream()
	if err != nil {
		return Speed{}, fmt.Errorf("parallel: measuring ranks: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p, err := dev.Alloc(largest)
	if err != nil {
		return Speed{}, fmt.Errorf("parallel: measuring ranks: %w", err)
	}
	defer func() { err = errors.Join(err, dev.Free(p)) }()
	if err := s.Memset(p, 0, largest); err != nil {
		return Speed{}, err
	}
	var seconds [2]float64
	for i, bytes := range []int64{smallest, largest} {
		var took []float64
		for n := range warmups + repeats {
			if err := c.Barrier(ctx); err != nil {
				return Speed{}, err
			}
			began := time.Now()
			if err := c.AllReduce(s, dtype.F32, Sum, Part{Recv: p, Send: p, N: bytes / 4}); err != nil {
				return Speed{}, err
			}
			if err := s.Synchronize(); err != nil {
				return Speed{}, err
			}
			if n >= warmups {
				took = append(took, time.Since(began).Seconds())
			}
		}
		seconds[i] = stats.Median(took)
	}
	if err := mean(c, s, p, seconds[:]); err != nil {
		return Speed{}, err
	}
	speed.Latency = time.Duration(seconds[0] * float64(time.Second))
	// What the larger takes besides is at least a little.
	besides := max(seconds[1]-seconds[0], seconds[1]/100, 1e-9)
	speed.Bus = 2 * largest * float64(c.Size()-1) / float64(c.Size()) / besides
	return speed, nil
}

// mean makes numbers those of all ranks, by memory at p.
func mean(c Comm, s device.Stream, p device.Ptr, x []float64) error {
	b := make([]byte, 0, 8*len(x))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	for _, err := range []error{
		s.CopyH2D(p, b),
		c.AllReduce(s, dtype.F64, Avg, Part{Recv: p, Send: p, N: int64(len(x))}),
		s.CopyD2H(b, p),
		s.Synchronize(),
	} {
		if err != nil {
			return err
		}
	}
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return nil
}
