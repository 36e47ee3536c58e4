package slab

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// Block is the samples of one source in a slab, and in the raw bytes of a
// device buffer: places of one size, one behind the other.
type Block struct {
	Source  *Source
	At      int     // where it begins
	Rows    int     // of a place: those of the longest sample
	Lengths []int32 // of each sample; nil when all are of one length
}

// Stride is the bytes of a place.
func (b *Block) Stride() int { return b.Rows * b.Source.RowBytes }

// place is where the sample of a slot goes: its own bytes, and the padding
// behind them.
func (b *Block) place(slab []byte, slot int) (sample, padding []byte) {
	stride := b.Stride()
	all := slab[b.At+slot*stride:][:stride:stride]
	if b.Lengths == nil {
		return all, nil
	}
	n := int(b.Lengths[slot]) * b.Source.RowBytes
	return all[:n:n], all[n:]
}

// Place returns where the sample of a slot goes, padded already. It fails with
// [ErrTooLong] if the sample is longer than the place.
func (b *Block) Place(slab []byte, slot int) ([]byte, error) {
	if b.Lengths != nil && int(b.Lengths[slot]) > b.Rows {
		return nil, fmt.Errorf("%w: length %d, and there is room for %d", ErrTooLong, b.Lengths[slot], b.Rows)
	}
	place, padding := b.place(slab, slot)
	b.Source.Pad.fill(padding)
	return place, nil
}

// measure works out how long samples are.
func (b *Block) measure(indexes []int) error {
	s := b.Source
	if !s.Spec.Ragged {
		b.Rows = s.Rows
		return nil
	}
	longest := s.Spec.Shape[0]
	b.Lengths = make([]int32, len(indexes))
	for slot, i := range indexes {
		n := dataset.Length(s.Dataset, i)
		if n < 0 || n > longest {
			return fmt.Errorf("%w: sample %d (%s) has length %d, but the longest is declared as %d", device.ErrArgument, i, s.Dataset.Name(i), n, longest)
		}
		b.Lengths[slot] = int32(n)
		b.Rows = max(b.Rows, n)
	}
	return nil
}

// move puts the sample of one slot into another.
func (b *Block) move(slab []byte, to, from int) {
	stride := b.Stride()
	copy(slab[b.At+to*stride:][:stride], slab[b.At+from*stride:])
	if b.Lengths != nil {
		b.Lengths[to] = b.Lengths[from]
	}
}

// widen makes room for so many rows in every place, and pads the samples that
// are there.
func (b *Block) widen(slab []byte, slots, rows int) {
	before := b.Stride()
	b.Rows = rows
	after := b.Stride()
	for slot := slots - 1; slot >= 0; slot-- {
		place := slab[b.At+slot*after:][:after]
		copy(place, slab[b.At+slot*before:][:before])
		b.Source.Pad.fill(place[before:])
	}
}

// cut leaves the first n samples.
func (b *Block) cut(n int) {
	if b.Lengths != nil {
		b.Lengths = b.Lengths[:n]
	}
}

// targetsAt lays out the targets of a batch behind so many bytes of samples,
// and returns the end of the last.
func targetsAt(end, samples int, targets []Block) int {
	for k := range targets {
		t := &targets[k]
		t.At = aligned(end)
		end = t.At + samples*t.Stride()
	}
	return end
}
