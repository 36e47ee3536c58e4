package main

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// share measures a data-parallel step in all kinds of sharing, each rank with samples of
// its own, beside a rank alone; and simulates it on other numbers of ranks.
func (b *bench) share() error {
	m, err := b.model.Model()
	if err != nil {
		return err
	}
	var speed parallel.Speed
	if err := onRanks(b.comms, func(c parallel.Comm) error {
		got, err := parallel.MeasureSpeed(b.ctx, c)
		if c.Rank() == b.first {
			speed = got
		}
		return err
	}); err != nil {
		return err
	}
	size := b.size
	own := func(c parallel.Comm, step, _ int) [][]byte {
		return b.sequences(step, c.Rank()*b.model.Batch, b.model.Batch)
	}
	open := func(share train.Sharing) func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
			return train.Open(s, exec, train.Options{Share: share, Compile: step.Options{BucketBytes: b.bucket, Ranks: c, RanksSpeed: speed}})
		}
	}
	alone := kind{open: func(_ parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return train.Open(s, exec, train.Options{Compile: step.Options{BucketBytes: b.bucket}})
	}}
	name := fmt.Sprintf("GPT %d x %d, %d x %d on each of %s", b.model.Layers, b.model.Width, b.model.Batch, b.model.Length, units.Count(size, "rank"))
	var whole [2]int64 // peak, and state, where nothing is shared
	for share := train.ShareNothing; share <= train.ShareWeights; share++ {
		if size == 1 && share > train.ShareNothing {
			break
		}
		note("%s: sharing %v", name, share)
		var peak, state int64
		var simulated []row
		this := kind{open(share), func(c parallel.Comm, r trained, batch func(int) ([]*step.Tensor, error)) error {
			runner := r.(*train.Runner)
			times, err := runner.Measure(b.ctx, batch)
			if err != nil || c.Rank() != 0 {
				return err
			}
			peak, state = runner.PeakBytes(), runner.StateBytes(size)
			micro, _ := runner.Executables()
			first := 1
			if share != train.ShareNothing { // one rank has no shares
				first = 2
			}
			for n := first; n <= 1024; n *= 2 {
				total, _ := micro.Predict(times.Seconds, n, speed)
				simulated = append(simulated, simulatedRow(share, n, "a step", "ms", 1e3*total),
					simulatedRow(share, n, "memory of a rank", "GiB", gib(peak-state+runner.StateBytes(n))))
			}
			return nil
		}}
		other := alone
		if share != train.ShareNothing {
			other = kind{open: open(train.ShareNothing)}
		}
		got, err := b.time(m, own, other, this)
		if err != nil {
			return err
		}
		without, with := got[0], got[1]
		what := fmt.Sprintf("%s: sharing %v", name, share)
		if share == train.ShareNothing {
			b.add(name+": a step of each alone", "ms", milliseconds(without.seconds)...)
		}
		b.add(what+": a step", "ms", milliseconds(with.seconds)...)
		b.add(what+": memory of a rank", "GiB", gib(peak))
		b.add(what+": state of a rank", "GiB", gib(state))
		if share == train.ShareNothing {
			whole = [2]int64{peak, state}
			b.add(what+": as many samples as alone", "times", times(float64(size), ratios(without.seconds, with.seconds))...)
		} else {
			if err := b.same(what, with.losses, without.losses); err != nil {
				return err
			}
			b.add(what+": a step", "of that without", ratios(with.seconds, without.seconds)...).AtMost = map[train.Sharing]float64{train.ShareUpdate: 1.03, train.ShareWeights: 1.1}[share]
			b.add(what+": state of a rank", "of that without", float64(state)/float64(whole[1]))
			b.add(what+": memory of a rank", "of that without", float64(peak)/float64(whole[0]))
		}
		b.Rows = append(b.Rows, simulated...)
	}
	return nil
}

func simulatedRow(share train.Sharing, ranks int, what, unit string, value float64) row {
	r := row{}
	r.Name, r.By, r.Unit = fmt.Sprintf("simulated on %s, sharing %v: %s", units.Count(ranks, "rank"), share, what), pinion, unit
	r.Value, r.Min, r.Max = value, value, value
	return r
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }
