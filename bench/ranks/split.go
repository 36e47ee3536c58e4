package main

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// parts is a runner whose ranks have parts of the state.
type parts struct {
	*train.Runner
	of         map[graph.Value]part
	size, rank int
}

// part is what a rank has of a parameter.
type part struct {
	param graph.Value
	axis  int
}

// Put gives a parameter this rank's part of its elements.
func (p *parts) Put(param graph.Value, data []byte) error {
	part := p.of[param]
	cut, err := spmd.Cut(data, param.Shape(), part.axis, p.size, p.rank)
	if err != nil {
		return err
	}
	return p.Runner.Put(part.param, cut)
}

// split measures a step whose blocks ranks split as Megatron-LM does, all with the same
// samples, beside a rank that has the whole.
func (b *bench) split() error {
	size := b.size
	if size == 1 {
		b.Skip("split", fmt.Errorf("there is one rank"))
		return nil
	}
	m, err := b.model.Model()
	if err != nil {
		return err
	}
	all := func(_ parallel.Comm, step, _ int) [][]byte { return b.sequences(step, 0, b.model.Batch) }
	name := fmt.Sprintf("GPT %d x %d, %d x %d", b.model.Layers, b.model.Width, b.model.Batch, b.model.Length)
	var whole, peak int64
	var report *spmd.Report
	alone := kind{func(_ parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return train.Open(s, exec, train.Options{})
	}, func(c parallel.Comm, r trained, _ func(int) ([]*step.Tensor, error)) error {
		if c.Rank() == 0 {
			whole = r.(*train.Runner).PeakBytes()
		}
		return nil
	}}
	split := kind{open: func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		p, err := spmd.Partition(&s, size, c.Rank(), models.Megatron(&s))
		if err != nil {
			return nil, err
		}
		r, err := train.Open(*p.Step, exec, train.Options{Compile: step.Options{Ranks: c}})
		if err != nil {
			return nil, err
		}
		own := &parts{r, map[graph.Value]part{}, size, c.Rank()}
		for i, st := range s.State {
			own.of[st.Param] = part{p.Step.State[i].Param, p.State[i]}
		}
		if c.Rank() == 0 {
			peak, report = r.PeakBytes(), &p.Report
		}
		return own, nil
	}}
	note("%s: alone, and split over %s", name, units.Count(size, "rank"))
	both, err := b.time(m, all, alone, split)
	if err != nil {
		return err
	}
	one, got := both[0], both[1]
	what := fmt.Sprintf("%s: split over %s", name, units.Count(size, "rank"))
	if err := b.same(what, got.losses, one.losses); err != nil {
		return err
	}
	b.add(name+": a step of one", "ms", milliseconds(one.seconds)...)
	b.add(what+": a step", "ms", milliseconds(got.seconds)...)
	b.add(what+": as fast as one", "times", ratios(one.seconds, got.seconds)...)
	b.add(what+": memory of a rank", "of that of one", float64(peak)/float64(whole))
	forward, sent := report.Count(spmd.Forward, graph.AllReduce)
	backward, back := report.Count(spmd.Backward, graph.AllReduce)
	b.add(what+": sums over ranks, forward and back", "sums", float64(forward+backward))
	b.add(what+": what they sum up", "GiB", gib(sent+back))
	return nil
}
