package tierbench

import (
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/workload"
)

// trace is one round of uses of n arrays.
func trace(access string, n int) []int {
	if access == tierdoc.Sequential {
		return workload.InTurn(n)
	}
	power := 0.0
	if access == tierdoc.Zipf {
		power = 1
	}
	return workload.ByRank(rand.New(rand.NewPCG(uint64(n), 7)), n, max(4*n, 256), power)
}
