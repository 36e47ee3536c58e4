package sampler

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/pinion-gpu/pinion/internal/draw"
)

// Weighted draws each index of an epoch with a chance in proportion to its
// weight, with replacement. It takes 16 bytes of memory per sample, and about
// as much again while it is made.
//
// Source: Walker, "An Efficient Method for Generating Discrete Random Variables
// with General Distributions", ACM TOMS 1977; the table is built as in Vose, "A
// Linear Algorithm for Generating Random Numbers with a Given Distribution",
// IEEE TSE 1991.
type Weighted struct {
	draws int
	key   uint64
	cells []cell
}

// cell is what a draw that falls on index i returns: i itself for the part
// below cut of 2^64, else alias.
type cell struct {
	cut   uint64
	alias int
}

// NewWeighted returns a sampler of draws indices per epoch. Weights need not
// add up to 1; a sample of weight 0 is never drawn. The slice is not kept.
// It is an [ErrArgument] if draws is below 1, if there are no weights, if one
// is negative, infinite or not a number, or if all are 0.
func NewWeighted(weights []float64, draws int, seed uint64) (*Weighted, error) {
	if err := atLeastOne("the number of weights", len(weights)); err != nil {
		return nil, err
	}
	if err := atLeastOne("draws", draws); err != nil {
		return nil, err
	}
	heaviest := 0
	for i, w := range weights {
		if !(w >= 0) || math.IsInf(w, 1) {
			return nil, fmt.Errorf("sampler: %w: weight %d of %d is %v", ErrArgument, i, len(weights), w)
		}
		if w > weights[heaviest] {
			heaviest = i
		}
	}
	if weights[heaviest] == 0 {
		return nil, fmt.Errorf("sampler: %w: all %d weights are 0", ErrArgument, len(weights))
	}
	return &Weighted{draws, draw.Hash(saltWeighted, seed), aliasTable(weights, heaviest)}, nil
}

// aliasTable returns the table of Vose's algorithm.
func aliasTable(weights []float64, heaviest int) []cell {
	n := len(weights)
	// Divided by the heaviest, the sum of huge weights stays finite.
	largest, sum := weights[heaviest], 0.0
	for _, w := range weights {
		sum += w / largest
	}
	chance := make([]float64, n) // in units of a cell, 1/n
	var small, large []int
	for i, w := range weights {
		chance[i] = w / largest / sum * float64(n)
		if chance[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	cells := make([]cell, n)
	for len(small) > 0 {
		s := small[len(small)-1]
		small = small[:len(small)-1]
		// Rounding can leave a small one without a partner. It keeps its
		// share, so that a weight of 0 stays 0, and the heaviest gets the rest.
		cells[s] = cell{uint64(chance[s] * 0x1p64), heaviest}
		if len(large) == 0 {
			continue
		}
		l := large[len(large)-1]
		cells[s].alias = l
		if chance[l] -= 1 - chance[s]; chance[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, l := range large {
		cells[l] = cell{0, l}
	}
	return cells
}

// Len is the number of draws of an epoch.
func (s *Weighted) Len() int { return s.draws }

// At returns the index that is drawn k-th, or -1 if k is not in 0..Len()-1.
func (s *Weighted) At(epoch, k int) int {
	if !within(k, s.draws) {
		return -1
	}
	return s.pick(draw.Hash(draw.Hash(s.key, uint64(epoch)), uint64(k)))
}

// pick returns the index that a random number stands for.
func (s *Weighted) pick(random uint64) int {
	// The product's upper half is the cell, its lower half the place in it.
	i, place := bits.Mul64(random, uint64(len(s.cells)))
	if c := s.cells[i]; place >= c.cut {
		return c.alias
	}
	return int(i)
}
