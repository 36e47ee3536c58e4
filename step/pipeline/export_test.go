package pipeline

import "github.com/pinion-gpu/pinion/step"

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
			for ; posted[rank] < len(lists[rank]); posted[rank]++ {
				// It is over when all of its own transfers are: others of that time see to theirs.
				end, ready := free[rank], true
				for _, t := range lists[rank][posted[rank]].transfers {
					at, ok := done[t.made]
					end, ready = max(end, at), ready && ok
					if other := t.made.stage % ranks; other != rank {
						i := posted[other]
						ready = ready && (i >= len(lists[other]) || lists[other][i].level >= t.level)
					} else if i := posted[t.to%ranks]; i < len(lists[t.to%ranks]) && lists[t.to%ranks][i].level < t.level {
						ready = false
					}
				}
				if !ready {
					break
				}
				for _, t := range lists[rank][posted[rank]].transfers {
					for _, r := range []int{t.made.stage % ranks, t.to % ranks} {
						end = max(end, free[r])
					}
				}
				for _, t := range lists[rank][posted[rank]].transfers {
					came[t.made] = max(came[t.made], end)
				}
				free[rank], moved = end, true
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
