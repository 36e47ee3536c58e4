package step

import (
	"context"
	"strings"

	"github.com/pinion-gpu/pinion/device"
)

// Measure runs the step once to warm up, and again to see how long each task takes on
// the device. Inputs are as for [Executable.Run]; none is donated. What it returns is for
// [Options].Seconds, to plan the same graph, or one with tasks of the same kind, with
// these times. Tasks that it did not see take what [Speed.Estimate] says.
//
// To measure a step that does not fit without a plan, compile it with a budget first.
func (x *Executable) Measure(ctx context.Context, inputs []*Tensor) (seconds func(*Task) float64, err error) {
	marks := make([][2]device.Event, len(x.plan.Runs))
	defer func() {
		for _, pair := range marks {
			for _, e := range pair {
				if e != nil {
					err = keepFirst(err, e.Close())
				}
			}
		}
	}()
	for i := range marks {
		for end := range marks[i] {
			if marks[i][end], err = x.dev.NewEvent(0); err != nil {
				return nil, err
			}
		}
	}
	for range 2 {
		results, err := x.run(ctx, inputs, nil, marks)
		for _, t := range results {
			err = keepFirst(err, t.Free())
		}
		if err != nil {
			return nil, err
		}
	}
	sums, counts := map[string]float64{}, map[string]float64{}
	for i, r := range x.plan.Runs {
		took, err := marks[i][1].Since(marks[i][0])
		if err != nil {
			return nil, err
		}
		kind := x.units[r.Op].task.kind()
		sums[kind] += took.Seconds()
		counts[kind]++
	}
	return func(t *Task) float64 {
		kind := t.kind()
		if n := counts[kind]; n > 0 {
			return sums[kind] / n
		}
		return Speed{}.Estimate(t)
	}, nil
}

// kind says what a task computes of its inputs' shapes, but not which inputs they are:
// tasks of one kind take the same time.
func (t *Task) kind() string {
	var b strings.Builder
	for _, n := range t.Nodes {
		b.WriteString(n.Kind())
		b.WriteByte(';')
	}
	return b.String()
}
