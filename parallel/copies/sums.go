package copies

import (
	_ "embed"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/internal/reduce"
)

//go:generate sh ../../kernels/ptx.sh nvcc sums.cu
//go:embed sums.ptx
var ptx []byte

// sums add up what ranks have sent: by kernels, or by Go functions where the device runs those.
type sums struct {
	caller  device.Caller
	module  device.Module
	kernels map[dtype.DType]device.Kernel
	most    int // thread blocks of a launch
}

const threads = 256

func loadSums(dev device.Device) (*sums, error) {
	if caller, ok := device.As[device.Caller](dev); ok {
		return &sums{caller: caller}, nil
	}
	l, ok := device.As[device.Launcher](dev)
	if !ok || l.ImageFormat() != device.PTX {
		return nil, fmt.Errorf("%s runs neither PTX nor Go functions", dev.Info().ID)
	}
	m, err := l.LoadModule(ptx)
	if err != nil {
		return nil, err
	}
	s := &sums{module: m, kernels: map[dtype.DType]device.Kernel{}, most: 4 * max(dev.Info().Multiprocessors, 1)}
	for _, t := range []dtype.DType{dtype.F16, dtype.BF16, dtype.F32, dtype.F64} {
		if s.kernels[t], err = m.Kernel("sum_" + t.String()); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return s, nil
}

// Close is called when no kernel is queued.
func (s *sums) Close() error {
	if s.module == nil {
		return nil
	}
	return s.module.Close()
}

// addition is what a kernel does: words of all ranks, in their order. Those of rank are at own,
// and those of others in slots.
type addition struct {
	t              dtype.DType
	mean           bool
	out, copy, own device.Ptr // copy: of the result; or 0
	slots          device.Ptr
	slotBytes      int64
	words          int64
	ranks, rank    int
}

// sum queues an addition.
func (s *sums) sum(stream device.Stream, a addition) error {
	if s.caller != nil {
		return s.caller.Call(stream, func() error { return a.run(s.caller) })
	}
	scale := 1.0
	if a.mean {
		scale /= float64(a.ranks)
	}
	var args device.Args
	args.Ptr(a.out).Ptr(a.copy).Ptr(a.own).Ptr(a.slots).Int64(a.slotBytes).Int64(a.words)
	args.Int32(int32(a.ranks)).Int32(int32(a.rank)).Int64(int64(math.Float64bits(scale)))
	packs := (a.words*int64(a.t.Size()) + unit - 1) / unit
	blocks := min(int64(s.most), (packs+threads-1)/threads)
	return s.kernels[a.t].Launch(stream, device.Grid{BlocksX: int(blocks), Threads: threads}, &args)
}

// run is an addition in Go.
func (a addition) run(c device.Caller) error {
	var failed error
	bytes := func(p device.Ptr) []byte {
		b, err := c.Bytes(p, a.words*int64(a.t.Size()))
		failed = errors.Join(failed, err)
		return b
	}
	sends := make([][]byte, a.ranks)
	for r := range sends {
		from := a.slots.Add(int64(r) * a.slotBytes)
		if r == a.rank {
			from = a.own
		}
		sends[r] = bytes(from)
	}
	recvs := [][]byte{bytes(a.out)}
	if a.copy != 0 {
		recvs = append(recvs, bytes(a.copy))
	}
	if failed != nil {
		return failed
	}
	op := parallel.Sum
	if a.mean {
		op = parallel.Avg
	}
	reduce.Into(recvs, sends, a.t, op)
	return nil
}

// fails has the stream fail if the communicator is aborted by then, where functions can.
func (s *sums) fails(stream device.Stream, aborts func() error) error {
	if s.caller == nil {
		return nil
	}
	return s.caller.Call(stream, aborts)
}
