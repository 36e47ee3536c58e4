package main

import (
	"fmt"
	"sync"

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
		if c.Rank() == 0 {
			speed = got
		}
		return err
	}); err != nil {
		return err
	}
	size := len(b.comms)
	own := func(c parallel.Comm, step, _ int) [][]byte {
		return b.sequences(step, c.Rank()*b.model.Batch, b.model.Batch)
	}
	open := func(share train.Sharing, alone bool) func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
		return func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error) {
			o := train.Options{Share: share, Compile: step.Options{BucketBytes: b.bucket}}
			if !alone {
				o.Compile.Ranks, o.Compile.RanksSpeed = c, speed
			}
			return train.Open(s, exec, o)
		}
	}
	name := fmt.Sprintf("GPT %d x %d, %d x %d on each of %s", b.model.Layers, b.model.Width, b.model.Batch, b.model.Length, units.Count(size, "rank"))
	note("%s: each alone", name)
	alone, err := b.time(b.comms, m, open(train.ShareNothing, true), own, nil)
	if err != nil {
		return err
	}
	b.add(name+": a step of each alone", "ms", milliseconds(alone.seconds)...)
	var nothing result
	var whole [2]int64 // peak, and state, where nothing is shared
	for share := train.ShareNothing; share <= train.ShareWeights; share++ {
		if size == 1 && share > train.ShareNothing {
			break
		}
		note("%s: sharing %v", name, share)
		var mu sync.Mutex
		var peak, state [1]int64
		var simulated []row
		got, err := b.time(b.comms, m, open(share, false), own, func(c parallel.Comm, r trained, batch func(int) ([]*step.Tensor, error)) error {
			runner := r.(*train.Runner)
			times, err := runner.Measure(b.ctx, batch)
			if err != nil || c.Rank() != 0 {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			peak[0], state[0] = runner.PeakBytes(), runner.StateBytes(size)
			micro, _ := runner.Executables()
			first := 1
			if share != train.ShareNothing { // one rank has no shares
				first = 2
			}
			for n := first; n <= 1024; n *= 2 {
				total, _ := micro.Predict(times.Seconds, n, speed)
				simulated = append(simulated, simulatedRow(share, n, "a step", "ms", 1e3*total),
					simulatedRow(share, n, "memory of a rank", "GiB", gib(peak[0]-state[0]+runner.StateBytes(n))))
			}
			return nil
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s: sharing %v", name, share)
		b.add(what+": a step", "ms", milliseconds(got.seconds)...)
		b.add(what+": memory of a rank", "GiB", gib(peak[0]))
		b.add(what+": state of a rank", "GiB", gib(state[0]))
		if share == train.ShareNothing {
			nothing, whole = got, [2]int64{peak[0], state[0]}
			b.add(what+": as many samples as alone", "times", over(inverse(got.seconds), 1/median(alone.seconds)/float64(size))...)
		} else {
			if err := b.same(what, got.losses, nothing.losses); err != nil {
				return err
			}
			b.add(what+": a step", "of that without", over(got.seconds, median(nothing.seconds))...).AtMost = map[train.Sharing]float64{train.ShareUpdate: 1.03, train.ShareWeights: 1.1}[share]
			b.add(what+": state of a rank", "of that without", float64(state[0])/float64(whole[1]))
			b.add(what+": memory of a rank", "of that without", float64(peak[0])/float64(whole[0]))
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

func inverse(list []float64) (out []float64) {
	for _, v := range list {
		out = append(out, 1/v)
	}
	return out
}
