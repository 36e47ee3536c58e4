package sampler

import (
	"math"
	"slices"
	"testing"
)

// shuffled puts 0 to n-1 through a buffer.
func shuffled(n, size int, seed uint64, epoch int) []int {
	b := must(NewShuffleBuffer[int](size, seed, epoch))
	var out []int
	for i := range n {
		if item, ok := b.Push(i); ok {
			out = append(out, item)
		}
	}
	for item, ok := b.Pop(); ok; item, ok = b.Pop() {
		out = append(out, item)
	}
	return out
}

func TestShuffleBufferLosesNothing(t *testing.T) {
	for _, n := range []int{0, 1, 2, 9, 10, 11, 500} {
		for _, size := range []int{1, 2, 10, 600} {
			out := shuffled(n, size, 1, 2)
			for place, item := range out {
				if item >= place+size {
					t.Fatalf("n %d, size %d: item %d came %d places early", n, size, item, item-place)
				}
			}
			if size == 1 && !slices.IsSorted(out) {
				t.Errorf("n %d: a buffer of 1 shuffled", n)
			}
			slices.Sort(out)
			if !slices.Equal(out, epochOf(&Sequential{n}, 0)) {
				t.Fatalf("n %d, size %d: %v came out", n, size, out)
			}
		}
	}
}

func TestShuffleBufferIsRandom(t *testing.T) {
	for _, size := range []int{5, 8} { // as large as the stream, and larger
		list, last := []int(nil), -1
		z := permutations(func(epoch, k int) int {
			if epoch != last {
				list, last = shuffled(5, size, 1, epoch), epoch
			}
			return list[k]
		}, 5, 20_000)
		if math.Abs(z) > tooFar {
			t.Errorf("size %d: permutations are %.1f standard deviations off", size, z)
		}
	}
	// In the middle of a stream an item stays t places with a chance of
	// (1-1/size)^t * 1/size.
	const n, size = 100_000, 10
	delays := make([]int, 20)
	for place, item := range shuffled(n, size, 1, 0) {
		if item < size || place >= n-size {
			continue
		}
		if delay := place + size - item - 1; delay < len(delays) {
			delays[delay]++
		}
	}
	for delay, count := range delays {
		chance := math.Pow(1-1.0/size, float64(delay)) / size
		expected := chance * n
		if z := (float64(count) - expected) / math.Sqrt(expected*(1-chance)); math.Abs(z) > tooFar {
			t.Errorf("%d items stayed %d places, %.1f standard deviations off", count, delay, z)
		}
	}
}

func TestShuffleBufferIsKeyed(t *testing.T) {
	base := shuffled(100, 20, 1, 1)
	if !slices.Equal(base, shuffled(100, 20, 1, 1)) {
		t.Error("the same seed and epoch give another order")
	}
	if slices.Equal(base, shuffled(100, 20, 2, 1)) || slices.Equal(base, shuffled(100, 20, 1, 2)) {
		t.Error("another seed or epoch gives the same order")
	}
}

func TestShuffleBufferLetsGo(t *testing.T) {
	b := must(NewShuffleBuffer[*int](3, 1, 1))
	for range 3 {
		b.Push(new(int))
	}
	b.Pop()
	b.Pop()
	if rest := b.items[:3]; b.Len() != 1 || rest[1] != nil || rest[2] != nil {
		t.Errorf("%d items, still holding %v", b.Len(), rest)
	}
}
