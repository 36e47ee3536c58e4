package sampler

import "github.com/pinion-gpu/pinion/internal/draw"

// Random visits every sample once per epoch, in an order drawn from a seed and
// the epoch's number. No order is stored: At computes one index in constant
// time and memory.
type Random struct {
	key   uint64
	order bijection
}

// NewRandom returns a random order of n samples. n below 1 is an
// [ErrArgument].
func NewRandom(n int, seed uint64) (*Random, error) {
	if err := atLeastOne("n", n); err != nil {
		return nil, err
	}
	return &Random{draw.Hash(saltRandom, seed), newBijection(n)}, nil
}

// Len is the number of samples.
func (s *Random) Len() int { return int(s.order.n) }

// At returns the index that is visited k-th, or -1 if k is not in 0..Len()-1.
func (s *Random) At(epoch, k int) int {
	if !within(k, s.Len()) {
		return -1
	}
	return int(s.order.at(draw.Hash(s.key, uint64(epoch)), uint64(k)))
}

// Position returns the position at which an index is visited: the k for which
// At returns index.
// It is -1 if index is not in 0..Len()-1.
func (s *Random) Position(epoch, index int) int {
	if !within(index, s.Len()) {
		return -1
	}
	return int(s.order.inverse(draw.Hash(s.key, uint64(epoch)), uint64(index)))
}
