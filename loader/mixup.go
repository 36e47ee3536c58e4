package loader

import (
	"math"

	"github.com/pinion-gpu/pinion/internal/draw"
	"github.com/pinion-gpu/pinion/sampler"
)

// mixSalt keeps what mixup draws apart from what transforms draw.
const mixSalt = 0x6d69787570

// maxMixup bounds alpha: beyond it the method takes too many tries, and the
// mixture hardly changes.
const maxMixup = 4

// drawMix draws the weight of a sample in its mixture from Beta(alpha, alpha),
// by Jöhnk's method ("Erzeugung von betaverteilten und gammaverteilten
// Zufallszahlen", Metrika 1964).
func drawMix(alpha float64, key uint64) float32 {
	for try := 0; ; try++ {
		u, v := draw.Open(sampler.Key(key^mixSalt, try, 0)), draw.Open(sampler.Key(key^mixSalt, try, 1))
		x, y := math.Pow(u, 1/alpha), math.Pow(v, 1/alpha)
		switch sum := x + y; {
		case sum == 0: // too small for numbers, but not for their quotient
			return float32(1 / (1 + math.Exp((math.Log(v)-math.Log(u))/alpha)))
		case sum <= 1:
			return float32(x / sum)
		}
	}
}

// Partner returns the sample of the batch that sample i is mixed with, see
// [Options].Mixup.
func (b *Batch) Partner(i int) int {
	n := len(b.Indexes)
	return (i + n/2) % n
}
