package sampler

import "github.com/pinion-gpu/pinion/internal/draw"

// RandomWithReplacement draws each index of an epoch from all samples, so some
// come several times and some not at all.
type RandomWithReplacement struct {
	n, draws int
	key      uint64
}

// NewRandomWithReplacement returns a sampler of draws indices per epoch, each
// drawn evenly from n samples. n or draws below 1 is an [ErrArgument].
func NewRandomWithReplacement(n, draws int, seed uint64) (*RandomWithReplacement, error) {
	if err := atLeastOne("n", n); err != nil {
		return nil, err
	}
	if err := atLeastOne("draws", draws); err != nil {
		return nil, err
	}
	return &RandomWithReplacement{n, draws, draw.Hash(saltReplacement, seed)}, nil
}

// Len is the number of draws of an epoch.
func (s *RandomWithReplacement) Len() int { return s.draws }

// At returns the index that is drawn k-th, or -1 if k is not in 0..Len()-1.
func (s *RandomWithReplacement) At(epoch, k int) int {
	if !within(k, s.draws) {
		return -1
	}
	return int(draw.Below(draw.Hash(draw.Hash(s.key, uint64(epoch)), uint64(k)), uint64(s.n)))
}
