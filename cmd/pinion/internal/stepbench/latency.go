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
	Times                 []float64 // seconds, of each run, in ascending order
}

// At is what a share of the runs took at most.
func (l *Latency) At(share float64) float64 {
	i := int(share*float64(len(l.Times)) + 0.5)
	return l.Times[min(max(i-1, 0), len(l.Times)-1)]
}

// RunLatency runs a model again and again, each run when the one before is done.
func RunLatency(ctx context.Context, dev device.Device, m *models.Model, runs int, seed uint64, progress func(done, total int, what string)) (l *Latency, err error) {
	exec, err := auto.Open(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	l = &Latency{}
	began := time.Now()
	x, err := step.Compile(m.Graph, exec, step.Options{Donate: m.Donate, Lend: m.Lend})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	l.Compile, l.Peak, l.Tasks = time.Since(began), x.PeakBytes(), len(x.Tasks())
	began = time.Now()
	in, err := m.Start(ctx, exec, x.Memory(), seed)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range in {
			err = errors.Join(err, t.Free())
		}
	}()
	l.Start = time.Since(began)
	warm := min(runs, 20)
	for i := range warm + runs {
		began = time.Now()
		out, err := m.Step(ctx, x, in)
		if err != nil {
			return nil, err
		}
		took := time.Since(began)
		if i == 0 {
			l.First = took
		}
		if i >= warm {
			l.Times = append(l.Times, took.Seconds())
		}
		if err := m.Free(out); err != nil {
			return nil, err
		}
		if progress != nil && i%64 == 0 {
			progress(i, warm+runs, "running")
		}
	}
	slices.Sort(l.Times)
	return l, nil
}
