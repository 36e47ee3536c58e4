package collbench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/draw"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
)

// pattern is bytes that memory has again and again. Their number of elements is a prime:
// what lies at the wrong place is seen.
type pattern []byte

const patternElements = 4093

// chunkBytes is about how much is copied and compared at a time.
const chunkBytes = 1 << 20

// from is the pattern of memory that begins so many bytes later.
func (p pattern) from(at int64) pattern {
	at %= int64(len(p))
	return append(p[at:len(p):len(p)], p[:at]...)
}

// chunk is whole patterns for memory of so many bytes, or for its beginning.
func (p pattern) chunk(most int64) []byte {
	n := int64(len(p))
	b := bytes.Repeat(p, int(min(max(1, chunkBytes/n), (most+n-1)/n)))
	return b[:min(most, int64(len(b)))]
}

// bytesOf is what a rank sends where nothing is computed.
func bytesOf(rank int) (p pattern) {
	for i := range uint64(patternElements) {
		p = binary.LittleEndian.AppendUint64(p, draw.Hash(uint64(rank)+1, i))
	}
	return p
}

// elements are what a rank sends to be combined: all ranks have the same number, but for
// two, which change from element to element. So results are exact with any order of
// rounding, in all types, up to 125 ranks.
func elements(t dtype.DType, op parallel.Op, rank, ranks int) (p pattern) {
	for i := range uint64(patternElements) {
		p = append(p, encode(t, element(op, i, rank, ranks))...)
	}
	return p
}

func element(op parallel.Op, i uint64, rank, ranks int) float64 {
	usual, special := 1.0, 2.0
	if op == parallel.Min {
		usual, special = 2, 1
	}
	for key := range uint64(2) {
		if draw.Below(draw.Hash(key, i), uint64(ranks)) == uint64(rank) {
			return special
		}
	}
	return usual
}

// combine is what all ranks' elements give.
func combine(t dtype.DType, op parallel.Op, ranks int) (p pattern) {
	for i := range uint64(patternElements) {
		v := element(op, i, 0, ranks)
		for rank := 1; rank < ranks; rank++ {
			switch x := element(op, i, rank, ranks); op {
			case parallel.Prod:
				v *= x
			case parallel.Min:
				v = min(v, x)
			case parallel.Max:
				v = max(v, x)
			default:
				v += x
			}
		}
		if op == parallel.Avg {
			v /= float64(ranks)
		}
		p = append(p, encode(t, v)...)
	}
	return p
}

// encode is a number above 0 as an element.
func encode(t dtype.DType, v float64) []byte {
	var bits uint64
	switch t {
	case dtype.F16:
		bits = uint64(float16.ToF16(float16.RoundToOdd(v)))
	case dtype.BF16:
		bits = uint64(float16.ToBF16(float16.RoundToOdd(v)))
	case dtype.F32:
		bits = uint64(math.Float32bits(float32(v)))
	case dtype.F64:
		bits = math.Float64bits(v)
	default:
		bits = uint64(v)
	}
	return binary.LittleEndian.AppendUint64(nil, bits)[:t.Size()]
}

// fill writes a pattern to memory.
func (b *bench) fill(p device.Ptr, n int64, with pattern) error {
	chunk := with.chunk(n)
	for at := int64(0); at < n; at += int64(len(chunk)) {
		if err := b.stream.CopyH2D(p.Add(at), chunk[:min(int64(len(chunk)), n-at)]); err != nil {
			return err
		}
	}
	return b.stream.Synchronize()
}

// check says what memory has where something else is to be; "" if all is right. Elements
// of t may be off by rounding; 0 is for bytes, which may not.
func (b *bench) check(p device.Ptr, t dtype.DType, wants []piece) (wrong string, err error) {
	for _, w := range wants {
		want := w.chunk(w.bytes)
		got := make([]byte, len(want))
		for at := int64(0); at < w.bytes; at += int64(len(want)) {
			n := min(int64(len(want)), w.bytes-at)
			if err := b.stream.CopyD2H(got[:n], p.Add(w.at+at)); err != nil {
				return "", err
			}
			if err := b.stream.Synchronize(); err != nil {
				return "", err
			}
			if off := differs(t, got[:n], want[:n]); off >= 0 {
				return fmt.Sprintf("byte %s of %s", units.Grouped(w.at+at+off), units.Grouped(wants[len(wants)-1].at+w.bytes)), nil
			}
		}
	}
	return "", nil
}

// differs is where got is something else than want, or -1.
func differs(t dtype.DType, got, want []byte) int64 {
	if bytes.Equal(got, want) {
		return -1
	}
	size, roundings := 1, uint64(0)
	if t.IsFloat() {
		size, roundings = t.Size(), 2
	}
	for at := 0; at < len(got); at += size {
		// Of numbers above 0, neighbours have neighbouring bits.
		x, y := bitsOf(got[at:at+size]), bitsOf(want[at:at+size])
		if max(x, y)-min(x, y) > roundings {
			return int64(at)
		}
	}
	return -1
}

func bitsOf(element []byte) (bits uint64) {
	for i, b := range element {
		bits |= uint64(b) << (8 * i)
	}
	return bits
}
