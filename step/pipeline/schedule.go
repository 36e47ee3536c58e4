package pipeline

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrArgument: a step, a schedule or options that cannot be right.
var ErrArgument = errs.ErrArgument

// Kind says which way a pass goes.
type Kind uint8

// The kinds of passes.
const (
	Forward Kind = iota
	Backward
)

// String returns the name: "forward".
func (k Kind) String() string {
	if k > Backward {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return [...]string{"forward", "backward"}[k]
}

// Op is one pass of one micro-batch through one stage.
type Op struct {
	Kind  Kind
	Micro int // which micro-batch, from 0
	Chunk int // which stage of the rank, from 0: stage Chunk*ranks+rank of all
}

// Schedule is the order in which each rank makes its passes, with chunks stages on each
// rank. Of one chunk, it is 1F1B, also called PipeDream-flush (Narayanan et al.,
// Memory-Efficient Pipeline-Parallel DNN Training, 2021): a rank makes forward passes until
// the first gradient can come, then one backward pass after each forward pass, and what is
// left backward. So no more than ranks-rank micro-batches are under way on a rank.
//
// With eager, ranks make as many forward passes again before that, and have up to
// 2*(ranks-rank)-1 micro-batches under way. Then sends go on beside passes, where in 1F1B
// each rank waits for one in each pair of passes (eager 1F1B of Zhuang et al., On Optimizing
// the Communication of Model Parallelism, 2022).
//
// Of more chunks, it is the interleaved order (Narayanan et al., Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM, 2021), whatever eager is. That
// takes the micro-batches in groups of as many as there are ranks, and micro has to be a
// multiple of ranks: an [ErrArgument] otherwise.
func Schedule(ranks, chunks, micro int, eager bool) ([][]Op, error) {
	if ranks < 1 || chunks < 1 || micro < 1 {
		return nil, fmt.Errorf("pipeline: %w: %d ranks with %d stages each, and %d micro-batches", ErrArgument, ranks, chunks, micro)
	}
	if chunks > 1 && micro%ranks != 0 {
		return nil, fmt.Errorf("pipeline: %w: with several stages on a rank, micro-batches have to be a multiple of the ranks: %d of %d ranks", ErrArgument, micro, ranks)
	}
	all := make([][]Op, ranks)
	for rank := range ranks {
		first := ranks - rank - 1 // forward passes before the first pair
		switch {
		case chunks > 1:
			first = 2*first + (chunks-1)*ranks
		case eager:
			first *= 2
		}
		total := micro * chunks
		first = min(first, total)
		for i := range total + first {
			if i < total {
				all[rank] = append(all[rank], nth(Forward, i, ranks, chunks))
			}
			if i >= first {
				all[rank] = append(all[rank], nth(Backward, i-first, ranks, chunks))
			}
		}
	}
	return all, nil
}

// nth is the nth pass of a kind on any rank: as many micro-batches as there are ranks go
// through a chunk before the next chunk has its turn.
func nth(k Kind, i, ranks, chunks int) Op {
	if chunks == 1 {
		return Op{k, i, 0}
	}
	group, within := i/(ranks*chunks), i%(ranks*chunks)
	op := Op{k, group*ranks + within%ranks, within / ranks}
	if k == Backward {
		op.Chunk = chunks - 1 - op.Chunk
	}
	return op
}

// Bubble is how long ranks wait because the first micro-batch has to come to the last stage
// and back, relative to the time in which they compute: (ranks-1)/(chunks*micro). It holds
// for stages of equal times and sends that take none.
func Bubble(ranks, chunks, micro int) float64 {
	return float64(ranks-1) / float64(chunks*micro)
}

// inFlight is how many micro-batches are under way at most in each stage.
func inFlight(schedule [][]Op) []int {
	most := map[int]int{}
	for rank, ops := range schedule {
		now := map[int]int{}
		for _, op := range ops {
			stage := op.Chunk*len(schedule) + rank
			if op.Kind == Backward {
				now[stage]--
				continue
			}
			now[stage]++
			most[stage] = max(most[stage], now[stage])
		}
	}
	list := make([]int, len(most))
	for stage, n := range most {
		list[stage] = n
	}
	return list
}
