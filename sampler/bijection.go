package sampler

import (
	"math"

	"github.com/pinion-gpu/pinion/internal/draw"
)

// How often one half of a number is changed by the other, in even counts. Few
// numbers take more rounds until every permutation is as likely as any other:
// of 8, each two rounds halve what is left of the bias.
const (
	fewNumbers = 256 // below that,
	roundsFew  = 20
	roundsMany = 12
)

// bijection is a family of permutations of 0..n-1, one per key, that needs no
// memory per number.
//
// It is a Feistel network: x is written as r*left + l, with l below left and r
// below right, both near the square root of n, and in turn a keyed hash of one
// half is added to the other, modulo that half's bound. left*right exceeds n by
// less than left: a result of n or more is put through again until it is below
// n (cycle walking), which is rare.
//
// Source: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
// 2002 (generalised Feistel cipher and cycle walking). It is used for shuffling
// with powers of two by Mitchell, Stokes, Frank and Holmes, "Bandwidth-Optimal
// Random Shuffling for GPUs", ACM TOPC 2022. This is no cipher: the hash is
// fast, not secret.
type bijection struct{ n, left, right, rounds uint64 }

func newBijection(n int) bijection {
	b := bijection{n: uint64(n), rounds: roundsMany}
	if n < fewNumbers {
		b.rounds = roundsFew
	}
	b.left = max(2, uint64(math.Sqrt(float64(n))))
	// With both halves odd, every round would be an even permutation, and
	// half of all orders would never come.
	b.left += b.left & 1
	b.right = (b.n + b.left - 1) / b.left
	return b
}

// at returns where x, below n, goes.
func (b bijection) at(key, x uint64) uint64 {
	for {
		l, r := x%b.left, x/b.left
		for i := uint64(0); i < b.rounds; i += 2 {
			l += draw.Below(roundHash(key, i, r), b.left)
			if l >= b.left {
				l -= b.left
			}
			r += draw.Below(roundHash(key, i+1, l), b.right)
			if r >= b.right {
				r -= b.right
			}
		}
		if x = r*b.left + l; x < b.n {
			return x
		}
	}
}

// inverse returns the x that at brings to y, below n.
func (b bijection) inverse(key, y uint64) uint64 {
	for {
		l, r := y%b.left, y/b.left
		for i := b.rounds; i > 0; i -= 2 {
			r += b.right - draw.Below(roundHash(key, i-1, l), b.right)
			if r >= b.right {
				r -= b.right
			}
			l += b.left - draw.Below(roundHash(key, i-2, r), b.left)
			if l >= b.left {
				l -= b.left
			}
		}
		if y = r*b.left + l; y < b.n {
			return y
		}
	}
}

// roundHash hashes half a number. Only the upper bits are good, which are
// those that draw.Below uses. The round's key does not depend on half, so the
// processor works it out while it waits for the round before.
func roundHash(key, round, half uint64) uint64 {
	h := (half ^ draw.Mix(key+round*draw.Golden)) * 0xff51afd7ed558ccd
	return (h ^ h>>32) * 0xc4ceb9fe1a85ec53
}
