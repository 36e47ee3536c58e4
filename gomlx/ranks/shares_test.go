package ranks

import (
	"testing"

	"github.com/pinion-gpu/pinion/parallel"
)

// world is a communicator that knows who it is.
type world struct {
	parallel.Comm
	rank, size int
}

func (w world) Rank() int { return w.rank }
func (w world) Size() int { return w.size }

// Each element of a value is in the share of one rank, also where the last ranks have none.
func TestShares(t *testing.T) {
	for size := 1; size <= 40; size++ {
		for _, elements := range []int{1, size*leastShare - 1, size * leastShare, size*leastShare + 1, 1000, 4097} {
			next := 0
			for rank := range size {
				s := newShare(world{nil, rank, size}, elements)
				if (s != nil) != (size > 1 && elements >= size*leastShare) {
					t.Fatalf("%d ranks, %d elements: %v", size, elements, s)
				}
				if s == nil {
					next = elements
					continue
				}
				from, n := s.of()
				if from != next || n < 0 || n > s.each || s.each*size < elements {
					t.Fatalf("rank %d of %d has %d elements from %d on, of %d; the one before ends at %d", rank, size, n, from, elements, next)
				}
				next += n
			}
			if next != elements {
				t.Errorf("%d ranks have %d elements of %d", size, next, elements)
			}
		}
	}
	if s := newShare(nil, 1000); s != nil {
		t.Errorf("one rank shares: %v", s)
	}
}
