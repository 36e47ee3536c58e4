package chunks

import (
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

var errShort = fmt.Errorf("%w: a page has fewer values than it says", dataset.ErrDamaged)

// bitsAt returns the i-th number of width bits, which lies in src.
func bitsAt(src []byte, width uint, i int) uint64 {
	at := uint(i) * width
	first, shift := int(at>>3), at&7
	var b [9]byte
	if first+9 <= len(src) {
		b = [9]byte(src[first:])
	} else {
		copy(b[:], src[first:])
	}
	v := binary.LittleEndian.Uint64(b[:]) >> shift
	if shift+width > 64 {
		v |= uint64(b[8]) << (64 - shift)
	}
	return v & (1<<width - 1) // also of 64 bits
}

// hybrid fills dst with numbers of width bits: runs of one value, and packed
// ones, as levels and indexes of a dictionary are written.
func hybrid[T uint8 | uint32](dst []T, src []byte, width uint) error {
	if width == 0 {
		clear(dst)
		return nil
	}
	for len(dst) > 0 {
		head, k := binary.Uvarint(src)
		if k <= 0 {
			return errShort
		}
		src = src[k:]
		n := int(min(head>>1, uint64(len(dst))))
		if head&1 == 0 {
			size := int(width+7) / 8
			if len(src) < size {
				return errShort
			}
			var b [4]byte
			copy(b[:], src[:size])
			src = src[size:]
			v := T(binary.LittleEndian.Uint32(b[:]))
			for i := range dst[:n] {
				dst[i] = v
			}
			dst = dst[n:]
			continue
		}
		groups := int(min(head>>1, uint64(len(dst)+7)/8)) // of eight, the last one filled up
		n = min(8*groups, len(dst))
		size := (n*int(width) + 7) / 8
		if len(src) < size {
			return errShort
		}
		for i := range dst[:n] {
			dst[i] = T(bitsAt(src, width, i))
		}
		dst = dst[n:]
		src = src[min(groups*int(width), len(src)):]
	}
	return nil
}

// deltas reads n numbers, each written as the difference to the one before, and
// returns what is behind them.
func deltas(n int, src []byte) (values []int64, rest []byte, err error) {
	bad := fmt.Errorf("%w: a page of deltas", dataset.ErrDamaged)
	c := compact{src}
	var head [4]uint64 // values of a block, miniblocks of a block, values, the first value
	for i := range head {
		if head[i], err = c.varint(); err != nil {
			return nil, nil, bad
		}
	}
	block, minis, count := head[0], head[1], head[2]
	if block == 0 || block > 1<<24 || minis == 0 || block%minis != 0 || block/minis%8 != 0 {
		return nil, nil, bad
	}
	if count != uint64(n) {
		return nil, nil, fmt.Errorf("%w: %d deltas, want %d", dataset.ErrDamaged, count, n)
	}
	values = make([]int64, 0, n)
	if n == 0 {
		return values, c.left, nil
	}
	last := unzigzag(head[3])
	values = append(values, last)
	for mini := int(block / minis); len(values) < n; {
		least, err := c.varint()
		if err != nil {
			return nil, nil, bad
		}
		widths, err := c.take(minis)
		if err != nil {
			return nil, nil, bad
		}
		for _, width := range widths {
			k := min(mini, n-len(values))
			if k == 0 {
				break // what is not needed is not there
			}
			if width > 64 || (k*int(width)+7)/8 > len(c.left) {
				return nil, nil, bad
			}
			for i := range k {
				last += unzigzag(least) + int64(bitsAt(c.left, uint(width), i))
				values = append(values, last)
			}
			c.left = c.left[min(mini*int(width)/8, len(c.left)):]
		}
	}
	return values, c.left, nil
}
