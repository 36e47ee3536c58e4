package loader

import (
	"encoding/binary"

	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/kernels"
)

// tail is where in a slab, and in the raw bytes of a device buffer, the things
// lie that go with the samples of a batch, behind them.
type tail struct {
	labels  int // an int32 a sample
	lengths int // an int32 a sample, where samples differ in length
	longs   int // the same for each target whose samples do, one behind the other
	mask    int // a byte a row of each sample, if asked for
	colours int // what becomes of the colours of each sample, if anything
	mix     int // a float32 a sample, if they are mixed
	end     int // of what is copied

	table int // what becomes of the pictures that the device decodes
	all   int // the end of it
}

// partAlign is the alignment of each part of a slab.
const partAlign = 16

func aligned(at int) int { return (at + partAlign - 1) &^ (partAlign - 1) }

// tailOf lays out what goes with count samples of rows each, which end with
// their targets at a byte of the slab.
func (l *Loader) tailOf(samples, count, rows int) tail {
	t := tail{end: samples}
	take := func(bytes int) (at int) {
		at = aligned(t.end)
		t.end = at + bytes
		return at
	}
	t.labels = take(4 * count)
	if l.spec.Ragged {
		t.lengths = take(4 * count)
	}
	if n := l.raggedTargets(); n > 0 {
		t.longs = take(4 * n * count)
	}
	if l.options.Mask {
		t.mask = take(count * rows)
	}
	if l.jitter != (imaging.Jitter{}) {
		t.colours = take(count * kernels.ColourBytes)
	}
	if l.options.Mixup > 0 {
		t.mix = take(4 * count)
	}
	end := t.end
	if l.encoded != nil {
		t.table = take(count * kernels.PictureBytes)
	}
	t.all, t.end = t.end, end
	return t
}

// slabBytes is the size of a full batch as it is copied.
func (l *Loader) slabBytes() int64 {
	full := make([]block, len(l.targets))
	for k := range full {
		full[k] = block{source: &l.targets[k], rows: l.targets[k].rows}
	}
	n := l.order.largest
	return int64(l.tailOf(targetsAt(n*l.rows*l.rowBytes, n, full), n, l.rows).all)
}

// write fills in what goes with the samples of j, and returns the weights of
// their mixtures.
func (l *Loader) write(t tail, j *job) (mix []float32, err error) {
	slab := j.slab.bytes
	putInts(slab[t.labels:], j.labels)
	if j.lengths != nil {
		putInts(slab[t.lengths:], j.lengths)
	}
	at := t.longs
	for k := range j.targets {
		lengths := j.targets[k].lengths
		putInts(slab[at:], lengths)
		at += 4 * len(lengths)
	}
	if l.options.Mask {
		j.putMask(slab[t.mask:])
	}
	if t.colours != 0 {
		colours := make([]kernels.Colour, len(j.indexes))
		for slot, i := range j.indexes {
			colours[slot] = kernels.Colour(l.jitter.Draw(l.key(j, i)))
		}
		if _, err := kernels.AppendColours(slab[t.colours:t.colours], colours...); err != nil {
			return nil, err
		}
	}
	if t.mix != 0 {
		mix = make([]float32, len(j.indexes))
		for slot, i := range j.indexes {
			mix[slot] = drawMix(l.options.Mixup, l.key(j, i))
		}
		if _, err := kernels.AppendMix(slab[t.mix:t.mix], mix...); err != nil {
			return nil, err
		}
	}
	return mix, nil
}

// putMask writes a byte for each row of each sample.
func (j *job) putMask(dst []byte) {
	for slot := range j.indexes {
		n := j.rows
		if j.lengths != nil {
			n = int(j.lengths[slot])
		}
		mask := dst[slot*j.rows:][:j.rows]
		for i := range n {
			mask[i] = 1
		}
		clear(mask[n:])
	}
}

func putInts(dst []byte, list []int32) {
	for i, v := range list {
		binary.LittleEndian.PutUint32(dst[4*i:], uint32(v))
	}
}
