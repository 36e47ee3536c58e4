package draw

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
			h := Hash(key, x)
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
			h := Hash(i, i+1)
			byKey += bits.OnesCount64(h ^ Hash(i^1<<bit, i+1))
			byX += bits.OnesCount64(h ^ Hash(i, (i+1)^1<<bit))
		}
		for name, turned := range map[string]int{"key": byKey, "x": byX} {
			// 32 bits of 64, with a standard deviation of 4 in each trial.
			if off := turned - 32*trials; off < -5*4*20 || off > 5*4*20 {
				t.Errorf("bit %d of %s turns %.2f bits, want 32", bit, name, float64(turned)/trials)
			}
		}
	}
}

// TestStays: what is drawn may not change, see the package's page. The states
// of SplitMix64 from seed 0 on are multiples of Golden, and the numbers those
// that other implementations give.
func TestStays(t *testing.T) {
	const first, second = 0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4
	if a, b := Mix(Golden), Mix(2*Golden&(1<<64-1)); a != first || b != second {
		t.Errorf("SplitMix64 gives %#x and %#x, want %#x and %#x", a, b, uint64(first), uint64(second))
	}
	if h := Hash(0, 0); h != Mix(first) {
		t.Errorf("Hash(0, 0) is %#x, want %#x", h, Mix(first))
	}
}

// TestRanges: at both ends of what is random the results are in their ranges.
func TestRanges(t *testing.T) {
	const most = 1<<64 - 1
	for _, c := range []struct {
		random      uint64
		unit, open  float64
		below, huge uint64
	}{
		{0, 0, 0x1p-53, 0, 0},
		{1 << 63, 0.5, 0.5 + 0x1p-53, 5, most / 2},
		{most, 1 - 0x1p-53, 1 - 0x1p-53, 9, most - 1},
	} {
		if u, o, b, h := Unit(c.random), Open(c.random), Below(c.random, 10), Below(c.random, most); u != c.unit || o != c.open || b != c.below || h != c.huge {
			t.Errorf("%#x: %g, %g, %d of 10, %#x, want %+v", c.random, u, o, b, h, c)
		}
	}
	if Below(most, 1) != 0 {
		t.Error("one number only can be drawn from one")
	}
}
