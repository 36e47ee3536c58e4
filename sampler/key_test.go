package sampler

import "testing"

// Keys stay what they are: what is drawn from them is part of a run.
func TestKeysStay(t *testing.T) {
	for _, c := range []struct {
		seed         uint64
		epoch, index int
		want         uint64
	}{
		{0, 0, 0, 0xfc1a1b99d613b5d9},
		{1, 0, 0, 0x213f0b6c702e3655},
		{0, 1, 0, 0xc8f42930bac47722},
		{0, 0, 1, 0x357beec9e8dc7435},
		{1 << 63, 89, 1_281_166, 0xa5516c6f9b84cce8},
	} {
		if got := Key(c.seed, c.epoch, c.index); got != c.want {
			t.Errorf("Key(%d, %d, %d) = %#x, want %#x", c.seed, c.epoch, c.index, got, c.want)
		}
	}
}

// No two of many visits share a key.
func TestKeysDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(8) {
		for epoch := range 32 {
			for index := range 256 {
				k := Key(seed, epoch, index)
				if seen[k] {
					t.Fatalf("Key(%d, %d, %d) = %#x again", seed, epoch, index, k)
				}
				seen[k] = true
			}
		}
	}
}
