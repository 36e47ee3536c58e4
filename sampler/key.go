package sampler

import "github.com/pinion-gpu/pinion/internal/draw"

// Key is 64 random bits that belong to one visit of one sample: to a seed, an
// epoch and an index. Draw from it what is random about the visit, such as
// how a picture is cropped, and neither workers nor ranks nor restarts change
// it.
func Key(seed uint64, epoch, index int) uint64 {
	return draw.Hash(draw.Hash(draw.Hash(saltKey, seed), uint64(epoch)), uint64(index))
}
