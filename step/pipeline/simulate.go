package pipeline

import "fmt"

// Simulate runs a schedule on a clock. forward and backward are the seconds of a pass
// through each stage, and send those for which what a pass makes is under way to another
// rank, beside the computation. total is the seconds until the last pass is done. bubble is
// how long ranks wait, relative to the time in which they compute, as the mean of all ranks:
// with equal stages and send 0, that is [Bubble]. It fails with [ErrArgument] if times are
// not for all stages, or passes wait for each other.
func Simulate(schedule [][]Op, forward, backward []float64, send float64) (total, bubble float64, err error) {
	ends, err := simulate(schedule, forward, backward, send)
	if err != nil {
		return 0, 0, err
	}
	busy := 0.0
	for rank, ops := range schedule {
		for i, op := range ops {
			busy += seconds(op, op.Chunk*len(schedule)+rank, forward, backward)
			total = max(total, ends[rank][i])
		}
	}
	if busy > 0 {
		bubble = total*float64(len(schedule))/busy - 1
	}
	return total, bubble, nil
}

func seconds(op Op, stage int, forward, backward []float64) float64 {
	if op.Kind == Forward {
		return forward[stage]
	}
	return backward[stage]
}

// pass is one pass of all ranks'.
type pass struct {
	kind         Kind
	micro, stage int
}

// needs are the passes whose results one takes.
func (p pass) needs(stages int) []pass {
	switch {
	case p.kind == Forward && p.stage == 0:
		return nil
	case p.kind == Forward:
		return []pass{{Forward, p.micro, p.stage - 1}}
	case p.stage == stages-1:
		return []pass{{Forward, p.micro, p.stage}}
	}
	return []pass{{Forward, p.micro, p.stage}, {Backward, p.micro, p.stage + 1}}
}

// simulate is when passes end.
func simulate(schedule [][]Op, forward, backward []float64, send float64) ([][]float64, error) {
	ranks, done := len(schedule), map[pass]float64{}
	ends, left := make([][]float64, ranks), 0
	for _, ops := range schedule {
		left += len(ops)
		for _, op := range ops {
			if op.Chunk < 0 || (op.Chunk+1)*ranks > len(forward) || len(forward) != len(backward) {
				return nil, fmt.Errorf("pipeline: %w: times of %d and %d stages for a schedule with chunk %d on %d ranks", ErrArgument, len(forward), len(backward), op.Chunk, ranks)
			}
		}
	}
	for left > 0 {
		before := left
		for rank, ops := range schedule {
			for i := len(ends[rank]); i < len(ops); i++ {
				p, now, ready := pass{ops[i].Kind, ops[i].Micro, ops[i].Chunk*ranks + rank}, 0.0, true
				if i > 0 {
					now = ends[rank][i-1]
				}
				for _, need := range p.needs(len(forward)) {
					end, ok := done[need]
					if need.stage%ranks != rank {
						end += send
					}
					now, ready = max(now, end), ready && ok
				}
				if !ready {
					break
				}
				now += seconds(ops[i], p.stage, forward, backward)
				done[p], ends[rank], left = now, append(ends[rank], now), left-1
			}
		}
		if left == before {
			return nil, fmt.Errorf("pipeline: %w: a schedule whose passes wait for each other, or for some that are not in it", ErrArgument)
		}
	}
	return ends, nil
}
