package imaging

import "math/bits"

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

func newDraws(key, purpose uint64) *draws { return &draws{key: hash(key, purpose)} }

func (d *draws) next() uint64 {
	d.n++
	return hash(d.key, d.n)
}

// uniform draws from lo <= v < hi, a multiple of (hi-lo)/2^53 above lo.
func (d *draws) uniform(lo, hi float64) float64 {
	part := float64(d.next()>>11) / (1 << 53)
	return lo + float64((hi-lo)*part)
}

// below draws from 0..n-1 for n >= 1, each number with a chance of 1/n give or
// take 1/2^64.
func (d *draws) below(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}

// hash is that of package sampler: SplitMix64 (Steele, Lea and Flood, OOPSLA
// 2014) with a key.
func hash(key, x uint64) uint64 { return mix(key ^ mix(x+0x9e3779b97f4a7c15)) }

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
