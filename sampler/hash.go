package sampler

import "math/bits"

// golden is 2^64 divided by the golden ratio: the step of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// Samplers of different kinds draw different numbers from the same seed.
const (
	saltRandom = iota + 1
	saltReplacement
	saltWeighted
	saltMembers
	saltBatches
	saltShuffle
	saltKey
	saltBlocks
	saltWithin
)

// mix is a bijection of 64 bits in which every bit of z sways every bit of the
// result. Source: the output function of SplitMix64 (Steele, Lea and Flood,
// "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), constants of
// David Stafford's variant 13.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// hash is a random number that depends on nothing but key and x.
func hash(key, x uint64) uint64 { return mix(key ^ mix(x+golden)) }

// below maps a random number of 64 bits to 0..n-1. The chance of a value
// differs from 1/n by less than n/2^64 of it. Source: Lemire, "Fast Random
// Integer Generation in an Interval", ACM TOMACS 2019, without its rejection,
// which would take a varying count of random numbers.
func below(random, n uint64) uint64 {
	hi, _ := bits.Mul64(random, n)
	return hi
}
