package imaging

import "github.com/pinion-gpu/pinion/internal/draw"

// What random numbers are drawn for. Each purpose has its own, so that adding
// a flip to a transform does not move its crops.
const (
	forCrop = iota + 1
	forFlip
	forJitter
)

// draws is a sequence of random numbers that depends on nothing but a key and
// what it is for: number n is a hash of both and n.
type draws struct{ key, n uint64 }

func newDraws(key, purpose uint64) *draws { return &draws{key: draw.Hash(key, purpose)} }

func (d *draws) next() uint64 {
	d.n++
	return draw.Hash(d.key, d.n)
}

// uniform draws from lo <= v < hi, a multiple of (hi-lo)/2^53 above lo.
func (d *draws) uniform(lo, hi float64) float64 {
	return lo + float64((hi-lo)*draw.Unit(d.next()))
}

// below draws from 0..n-1 for n >= 1, each number with a chance of 1/n give or
// take 1/2^64.
func (d *draws) below(n int) int { return int(draw.Below(d.next(), uint64(n))) }
