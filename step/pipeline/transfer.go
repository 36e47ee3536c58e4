package pipeline

import (
	"cmp"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
)

// transfer is a value of one pass that goes to the rank of the next or previous stage.
type transfer struct {
	level  int // when it is sent, on the clock of levels
	made   pass
	to     int // stage
	value  graph.Value
	number int // among those of the pass
}

// exchange is what a rank sends and receives at one time.
type exchange struct {
	level     int
	transfers []transfer
}

// exchanges are all that a rank does with others in the passes of a step, in order.
//
// The operations of a communicator run one after the other on each rank, and a send meets a
// receive. So ranks need an order in common: that of a clock. What a pass needs was sent at
// an earlier time than its own end, so those of the earliest time that is not over yet can
// go on, on all ranks. What happens at the same time goes on together.
func (l *layout) exchanges(rank int) ([]exchange, error) {
	ends, err := l.levels()
	if err != nil {
		return nil, err
	}
	var all []transfer
	for from, ops := range l.schedule {
		for i, op := range ops {
			made := pass{op.Kind, op.Micro, op.Chunk*l.ranks + from}
			to, values := made.stage+1, l.parts[made.stage].up
			if op.Kind == Backward {
				to, values = made.stage-1, l.parts[made.stage].down
			}
			for k, v := range values {
				if other := to % l.ranks; other != from && (from == rank || other == rank) && v.Shape().Bytes() > 0 {
					all = append(all, transfer{ends[from][i], made, to, v, k})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b transfer) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.made.stage, b.made.stage), cmp.Compare(a.made.kind, b.made.kind), cmp.Compare(a.made.micro, b.made.micro), cmp.Compare(a.number, b.number))
	})
	var list []exchange
	for _, t := range all {
		if len(list) == 0 || list[len(list)-1].level != t.level {
			list = append(list, exchange{level: t.level})
		}
		last := &list[len(list)-1]
		last.transfers = append(last.transfers, t)
	}
	return list, nil
}

// levels are the times at which each rank's passes end on the clock: backward takes twice
// as long as forward, as it does in a network of products, and a send little. Where passes
// end in another order than on the clock, ranks wait for sends that they do not need yet.
func (l *layout) levels() ([][]int, error) {
	const unit = 1024
	forward, backward := make([]float64, len(l.parts)), make([]float64, len(l.parts))
	for i := range l.parts {
		forward[i], backward[i] = unit, 2*unit
	}
	ends, err := simulate(l.schedule, forward, backward, 1)
	list := make([][]int, len(ends))
	for rank := range ends {
		for _, end := range ends[rank] {
			list[rank] = append(list[rank], int(end))
		}
	}
	return list, err
}

// spread is new state that goes from the rank that updates it to another that reads it.
type spread struct{ state, from, to int }

// spreads are those that a rank sends or receives, in an order that all ranks have.
func (l *layout) spreads(rank int) (list []spread) {
	for i, owner := range l.update.owner {
		if owner < 0 || l.step.State[i].Param.Shape().Bytes() == 0 {
			continue
		}
		for _, holder := range l.holders(i) {
			if holder != owner && (holder == rank || owner == rank) {
				list = append(list, spread{i, owner, holder})
			}
		}
	}
	return list
}
