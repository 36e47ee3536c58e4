// Package draw makes random numbers that depend on nothing but what they are
// for: number x of a key is a hash of both. So they can be had in any order, by
// any number of workers, and again after a restart.
//
//	flip := draw.Unit(draw.Hash(key, 3)) < 0.5
//
// What is drawn is part of saved states and recorded runs: it never changes.
package draw

import "math/bits"

// Golden is 2^64 divided by the golden ratio: the step of SplitMix64.
const Golden = 0x9e3779b97f4a7c15

// Mix is a bijection of 64 bits in which every bit of z sways every bit of the
// result. Source: the output function of SplitMix64 (Steele, Lea and Flood,
// "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014), constants of
// David Stafford's variant 13.
func Mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Hash is 64 random bits that depend on nothing but key and x.
func Hash(key, x uint64) uint64 { return Mix(key ^ Mix(x+Golden)) }

// Below maps 64 random bits to 0..n-1, for n >= 1. The chance of a value
// differs from 1/n by less than n/2^64 of it. Source: Lemire, "Fast Random
// Integer Generation in an Interval", ACM TOMACS 2019, without its rejection,
// which would take a varying count of random numbers.
func Below(random, n uint64) uint64 {
	hi, _ := bits.Mul64(random, n)
	return hi
}

// Unit maps 64 random bits to 0 <= u < 1, a multiple of 2^-53.
func Unit(random uint64) float64 { return float64(random>>11) / (1 << 53) }

// Open maps 64 random bits to 0 < u < 1: the middles of 2^52 parts.
func Open(random uint64) float64 { return (float64(random>>12) + 0.5) / (1 << 52) }
