package loader

import "math/rand/v2"

// order returns the sample numbers of one epoch in the order they are visited.
func order(n int, shuffle bool, seed uint64, epoch int) []int {
	if shuffle {
		return rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n)
	}
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
