package loader

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// block is the samples of a source in a slab, and in the raw bytes of a device
// buffer: in places of one size, one behind the other.
type block struct {
	source  *source
	at      int     // where it begins
	rows    int     // of a place: those of the longest sample
	lengths []int32 // of each sample; nil when all are of one length
}

// stride is the bytes of a place.
func (b *block) stride() int { return b.rows * b.source.rowBytes }

// place is where the sample of a slot goes: its own bytes, and the padding
// behind them.
func (b *block) place(slab []byte, slot int) (sample, padding []byte) {
	stride := b.stride()
	all := slab[b.at+slot*stride:][:stride:stride]
	if b.lengths == nil {
		return all, nil
	}
	n := int(b.lengths[slot]) * b.source.rowBytes
	return all[:n:n], all[n:]
}

// measure works out how long samples are.
func (b *block) measure(indexes []int) error {
	s := b.source
	if !s.spec.Ragged {
		b.rows = s.rows
		return nil
	}
	longest := s.spec.Shape[0]
	b.lengths = make([]int32, len(indexes))
	for slot, i := range indexes {
		n := dataset.Length(s.ds, i)
		if n < 0 || n > longest {
			return fmt.Errorf("%w: sample %d (%s) has length %d, the longest is said to have %d", device.ErrArgument, i, s.ds.Name(i), n, longest)
		}
		b.lengths[slot] = int32(n)
		b.rows = max(b.rows, n)
	}
	return nil
}

// move puts the sample of one slot into another.
func (b *block) move(slab []byte, to, from int) {
	stride := b.stride()
	copy(slab[b.at+to*stride:][:stride], slab[b.at+from*stride:])
	if b.lengths != nil {
		b.lengths[to] = b.lengths[from]
	}
}

// widen makes room for so many rows in every place, and pads the samples that
// are there.
func (b *block) widen(slab []byte, slots, rows int) {
	before := b.stride()
	b.rows = rows
	after := b.stride()
	for slot := slots - 1; slot >= 0; slot-- {
		place := slab[b.at+slot*after:][:after]
		copy(place, slab[b.at+slot*before:][:before])
		b.source.pad.fill(place[before:])
	}
}

// cut leaves the first n samples.
func (b *block) cut(n int) {
	if b.lengths != nil {
		b.lengths = b.lengths[:n]
	}
}

// targetsAt lays out the targets of a batch behind so many bytes of samples,
// and returns the end of the last.
func targetsAt(end, samples int, targets []block) int {
	for k := range targets {
		t := &targets[k]
		t.at = aligned(end)
		end = t.at + samples*t.stride()
	}
	return end
}
