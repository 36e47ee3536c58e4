package sampler

import (
	"math/bits"
	"testing"
)

// TestHashOfNeighbours: seeds, epochs and positions are small numbers that
// follow each other; no two pairs of them may share a result.
func TestHashOfNeighbours(t *testing.T) {
	seen := map[uint64][2]uint64{}
	for key := range uint64(200) {
		for x := range uint64(200) {
			h := hash(key, x)
			if other, ok := seen[h]; ok {
				t.Fatalf("%d, %d has the hash of %d, %d", key, x, other[0], other[1])
			}
			seen[h] = [2]uint64{key, x}
		}
	}
}

// TestHashSpreadsEveryBit: a bit of the key or of x turns half of the result.
func TestHashSpreadsEveryBit(t *testing.T) {
	const trials = 400
	for bit := range 64 {
		var byKey, byX int
		for i := range uint64(trials) {
			h := hash(i, i+1)
			byKey += bits.OnesCount64(h ^ hash(i^1<<bit, i+1))
			byX += bits.OnesCount64(h ^ hash(i, (i+1)^1<<bit))
		}
		for name, turned := range map[string]int{"key": byKey, "x": byX} {
			// 32 bits of 64, with a standard deviation of 4 in each trial.
			if off := turned - 32*trials; off < -5*4*20 || off > 5*4*20 {
				t.Errorf("bit %d of %s turns %.2f bits, want 32", bit, name, float64(turned)/trials)
			}
		}
	}
}
