package host

import (
	"encoding/binary"
	"math/bits"

	"github.com/pinion-gpu/pinion/step/graph"
)

func init() { provide(randomBits, graph.RNGBitGenerator) }

// philox is Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
// easy as 1, 2, 3" (SC 2011): 16 random bytes for a counter and a key.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, counter[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, counter[2])
		counter = [4]uint32{h1 ^ counter[1] ^ key[0], l1, h0 ^ counter[3] ^ key[1], l0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return counter
}

func randomBits(n *graph.Node) (function, error) {
	return func(in, out [][]byte) {
		state := view[uint64](in[0])
		key := [2]uint32{uint32(state[0]), uint32(state[0] >> 32)}
		low, high := state[1], state[2]
		result := out[1]
		blocks := (len(result) + 15) / 16
		parallel(blocks, grain/16, func(from, to int) {
			for i := from; i < to; i++ {
				l, carry := bits.Add64(low, uint64(i), 0)
				h := high + carry
				words := philox([4]uint32{uint32(l), uint32(l >> 32), uint32(h), uint32(h >> 32)}, key)
				var b [16]byte
				for j, w := range words {
					binary.LittleEndian.PutUint32(b[4*j:], w)
				}
				copy(result[16*i:], b[:])
			}
		})
		l, carry := bits.Add64(low, uint64(blocks), 0)
		next := view[uint64](out[0])
		next[0], next[1], next[2] = state[0], l, high+carry
	}, nil
}
