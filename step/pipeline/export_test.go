package pipeline

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// CaptureStats are those of the rank's programs.
func (r *Runner) CaptureStats() (list []step.CaptureStats) {
	for _, c := range r.chunks {
		for _, p := range []*program{c.forward, c.backward} {
			if p != nil {
				list = append(list, p.x.CaptureStats())
			}
		}
	}
	return list
}

// Clock runs the passes of a step on a clock, where forward takes 1 and backward as long as
// said, and where each rank's exchanges come one after the other, in the order of the runner.
func Clock(s train.Step, ranks int, o Options, backward float64) (seconds float64, err error) {
	l, err := lay(&s, ranks, o)
	if err != nil {
		return 0, err
	}
	lists := make([][]exchange, ranks)
	for rank := range lists {
		if lists[rank], err = l.exchanges(rank); err != nil {
			return 0, err
		}
	}
	done, came := map[pass]float64{}, map[pass]float64{}
	now, free, next, posted := make([]float64, ranks), make([]float64, ranks), make([]int, ranks), make([]int, ranks)
	for moved := true; moved; {
		moved = false
		for rank, ops := range l.schedule {
			for ; next[rank] < len(ops); next[rank]++ {
				op, begin, ready := ops[next[rank]], now[rank], true
				p := pass{op.Kind, op.Micro, op.Chunk*ranks + rank}
				for _, need := range p.needs(len(l.parts)) {
					at, ok := done[need]
					if need.stage%ranks != rank {
						at, ok = came[need]
					}
					begin, ready = max(begin, at), ready && ok
				}
				if !ready {
					break
				}
				if op.Kind == Forward {
					now[rank] = begin + 1
				} else {
					now[rank] = begin + backward
				}
				done[p], moved = now[rank], true
			}
		}
		// What is exchanged at one time goes on when all of it was made, and all are done with what came before.
		at, of := math.MaxInt, []int(nil)
		for rank, i := range posted {
			if i < len(lists[rank]) {
				at = min(at, lists[rank][i].level)
			}
		}
		end, ready := 0.0, true
		for rank, i := range posted {
			if i == len(lists[rank]) || lists[rank][i].level != at {
				continue
			}
			of, end = append(of, rank), max(end, free[rank])
			for _, t := range lists[rank][i].transfers {
				when, ok := done[t.made]
				end, ready = max(end, when), ready && ok
			}
		}
		if ready {
			for _, rank := range of {
				for _, t := range lists[rank][posted[rank]].transfers {
					came[t.made] = end
				}
				free[rank], moved = end, true
				posted[rank]++
			}
		}
	}
	for rank, ops := range l.schedule {
		if next[rank] < len(ops) {
			return 0, fmt.Errorf("rank %d has made %d of %d passes", rank, next[rank], len(ops))
		}
		seconds = max(seconds, now[rank])
	}
	return seconds, nil
}
