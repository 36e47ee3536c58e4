package sampler

// Sequential visits 0, 1, … n-1 in every epoch.
type Sequential struct{ n int }

// NewSequential returns the order of n samples from first to last. n below 1 is an
// [ErrArgument].
func NewSequential(n int) (*Sequential, error) {
	if err := atLeastOne("n", n); err != nil {
		return nil, err
	}
	return &Sequential{n}, nil
}

// Len is the number of samples.
func (s *Sequential) Len() int { return s.n }

// At returns k, or -1 if k is not in 0..Len()-1.
func (s *Sequential) At(_, k int) int {
	if !within(k, s.n) {
		return -1
	}
	return k
}
