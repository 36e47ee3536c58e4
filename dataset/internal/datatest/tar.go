package datatest

import "math"

const tarBlock = 512

// SqueezeTar returns a tar without most of its zeros, which are most of it: a
// fuzzer would spend its time on them, and minutes on making one find shorter. Zeros up
// to the next block, or for a whole one, are two bytes 0, and other n of them
// are 0 and n.
func SqueezeTar(shard []byte) (b []byte) {
	for at := 0; at < len(shard); {
		if shard[at] != 0 {
			b = append(b, shard[at])
			at++
			continue
		}
		end := at
		for end < len(shard) && shard[end] == 0 {
			end++
		}
		for at < end {
			n := min(end-at, math.MaxUint8)
			if next := at/tarBlock*tarBlock + tarBlock; next <= end {
				b, at = append(b, 0, 0), next
			} else {
				b, at = append(b, 0, byte(n)), at+n
			}
		}
	}
	return b
}

// StretchTar returns the tar that [SqueezeTar] made b of; any b stands for
// something.
func StretchTar(b []byte) (shard []byte) {
	for len(b) > 0 {
		c := b[0]
		if b = b[1:]; c != 0 {
			shard = append(shard, c)
			continue
		}
		n := 0
		if len(b) > 0 {
			n, b = int(b[0]), b[1:]
		}
		if n == 0 {
			n = tarBlock - len(shard)%tarBlock
		}
		shard = append(shard, make([]byte, n)...)
	}
	return shard
}
