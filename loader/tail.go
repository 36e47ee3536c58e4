package loader

import "encoding/binary"

// tail is where in a slab, and in the raw bytes of a device buffer, the things
// lie that go with the samples of a batch, behind them.
type tail struct {
	labels  int // an int32 a sample
	lengths int // an int32 a sample, where samples differ in length
	mask    int // a byte a row of each sample, if asked for
	end     int
	ragged  bool
	masked  bool
}

// tailAlign is the alignment of each part.
const tailAlign = 16

// tailOf lays out what goes with count samples of rows each, which end at a
// byte of the slab.
func (l *Loader) tailOf(samples, count, rows int) tail {
	t := tail{ragged: l.spec.Ragged, masked: l.options.Mask, end: samples}
	take := func(bytes int) (at int) {
		at = (t.end + tailAlign - 1) &^ (tailAlign - 1)
		t.end = at + bytes
		return at
	}
	t.labels = take(4 * count)
	if t.ragged {
		t.lengths = take(4 * count)
	}
	if t.masked {
		t.mask = take(count * rows)
	}
	return t
}

// slabBytes is the size of a full batch as it is copied.
func (l *Loader) slabBytes() int64 {
	return int64(l.tailOf(l.order.largest*l.rows*l.rowBytes, l.order.largest, l.rows).end)
}

// write fills in what goes with the samples of j.
func (t tail) write(slab []byte, j *job) {
	putInts(slab[t.labels:], j.labels)
	if t.ragged {
		putInts(slab[t.lengths:], j.lengths)
	}
	if !t.masked {
		return
	}
	for slot := range j.indexes {
		n := j.rows
		if j.lengths != nil {
			n = int(j.lengths[slot])
		}
		mask := slab[t.mask+slot*j.rows:][:j.rows]
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
