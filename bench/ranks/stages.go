package main

import (
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// stages measures a step in stages, one on each rank, beside a rank that makes all
// micro-batches alone. Its ideal is that rank's time over the ranks, with the wait for the
// first micro-batch to come through and back ([pipeline.Bubble]).
func (b *bench) stages() error {
	size := len(b.comms)
	if size == 1 {
		b.Skip("stages", fmt.Errorf("there is one rank"))
		return nil
	}
	c := b.model
	c.Batch = 2
	m, err := c.Model()
	if err != nil {
		return err
	}
	all := func(_ parallel.Comm, step, micro int) [][]byte { return b.sequences(step, micro*c.Batch, c.Batch) }
	name := fmt.Sprintf("GPT %d x %d, %s of %d x %d", c.Layers, c.Width, units.Count(b.micro, "micro-batch"), c.Batch, c.Length)
	note("%s: each alone", name)
	alone, err := b.time(b.comms, m, func(_ parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return train.Open(s, exec, train.Options{Accumulate: b.micro, Compile: step.Options{}})
	}, all, nil)
	if err != nil {
		return err
	}
	b.add(name+": a step of each alone", "ms", milliseconds(alone.seconds)...)
	for chunks := 1; chunks <= 2; chunks++ {
		note("%s: %s on each rank", name, units.Count(chunks, "stage"))
		var mu sync.Mutex
		var report *pipeline.Report
		got, err := b.time(b.comms, m, func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
			return pipeline.Open(s, exec, c, pipeline.Options{Micro: b.micro, Chunks: chunks, Compile: step.Options{}})
		}, all, func(c parallel.Comm, r trained, _ func(int) ([]*step.Tensor, error)) error {
			got, err := r.(*pipeline.Runner).Report()
			mu.Lock()
			defer mu.Unlock()
			if c.Rank() == 0 {
				report = got
			}
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s: %s on each of %d", name, units.Count(chunks, "stage"), size)
		if err := b.same(what, got.losses, alone.losses); err != nil {
			return err
		}
		ideal := median(alone.seconds) / float64(size) * (1 + report.Bubble)
		b.add(what+": a step", "ms", milliseconds(got.seconds)...)
		b.add(what+": a step", "of the ideal", over(got.seconds, ideal)...).AtMost = 1.05
		b.add(what+": wait by the formula", "of the time that it computes", report.Bubble)
		b.add(what+": wait as simulated with the stages' times", "of the time that it computes", report.Simulated)
	}
	return nil
}
