package main

import (
	"fmt"

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
	size := b.size
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
	kinds := []kind{{open: func(_ parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return train.Open(s, exec, train.Options{Accumulate: b.micro, Compile: step.Options{}})
	}}}
	reports := make([]*pipeline.Report, 3) // by the stages of a rank
	for chunks := 1; chunks < len(reports); chunks++ {
		kinds = append(kinds, kind{func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
			return pipeline.Open(s, exec, c, pipeline.Options{Micro: b.micro, Chunks: chunks, Compile: step.Options{}})
		}, func(c parallel.Comm, r trained, _ func(int) ([]*step.Tensor, error)) error {
			got, err := r.(*pipeline.Runner).Report()
			if c.Rank() == 0 {
				reports[chunks] = got
			}
			return err
		}})
	}
	note("%s: alone, and in stages", name)
	got, err := b.time(m, all, kinds...)
	if err != nil {
		return err
	}
	alone := got[0]
	b.add(name+": a step of each alone", "ms", milliseconds(alone.seconds)...)
	for chunks := 1; chunks < len(reports); chunks++ {
		report, got := reports[chunks], got[chunks]
		what := fmt.Sprintf("%s: %s on each of %d", name, units.Count(chunks, "stage"), size)
		if err := b.same(what, got.losses, alone.losses); err != nil {
			return err
		}
		ideal := times((1+report.Bubble)/float64(size), alone.seconds)
		b.add(what+": a step", "ms", milliseconds(got.seconds)...)
		b.add(what+": a step", "of the ideal", ratios(got.seconds, ideal)...).AtMost = 1.05
		b.add(what+": wait by the formula", "of the time that it computes", report.Bubble)
		b.add(what+": wait as simulated with the stages' times", "of the time that it computes", report.Simulated)
	}
	return nil
}
