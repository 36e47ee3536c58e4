package stepbench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
)

// Latency is how long single runs of a model took.
type Latency struct {
	Compile, Start, First time.Duration
	Peak                  int64
	Tasks                 int
	Recorded              bool      // each run is one launch
	Times                 []float64 // seconds, of each run, in ascending order
}

// At is what a share of the runs took at most.
func (l *Latency) At(share float64) float64 {
	i := int(share*float64(len(l.Times)) + 0.5)
	return l.Times[min(max(i-1, 0), len(l.Times)-1)]
}

// RunLatency runs a model again and again in a session, each run when the one before is
// done, with what comes out of one as far as it fits as the input of the next.
func RunLatency(ctx context.Context, dev device.Device, m *models.Model, runs int, seed uint64, progress func(done, total int, what string)) (l *Latency, err error) {
	exec, err := auto.Open(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	memory, err := step.OpenMemory(dev, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, memory.Close()) }()
	l = &Latency{}
	began := time.Now()
	tensors, err := m.Start(ctx, exec, memory, seed)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range tensors {
			err = errors.Join(err, t.Free())
		}
	}()
	l.Start, began = time.Since(began), time.Now()
	s, err := m.Session(exec, tensors)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l.Compile, l.Peak, l.Tasks = time.Since(began), s.Executable().PeakBytes(), len(s.Executable().Tasks())
	for i, p := range m.Batch {
		if err := tensors[p].Read(s.Inputs()[i]); err != nil {
			return nil, err
		}
	}
	warm := min(runs, 20)
	for i := range warm + runs {
		took, err := s.Run(ctx, nil, nil)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			l.First = took
		}
		if i >= warm {
			l.Times = append(l.Times, took.Seconds())
		}
		if out, in := s.Outputs()[0], s.Inputs()[0]; len(out) == len(in) {
			copy(in, out)
		}
		if progress != nil && i%64 == 0 {
			progress(i, warm+runs, "running")
		}
	}
	slices.Sort(l.Times)
	l.Recorded, _ = s.Recorded()
	return l, nil
}
