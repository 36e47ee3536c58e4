package slab

import "github.com/pinion-gpu/pinion/kernels"

// Layout says what the slabs of a loader hold.
type Layout struct {
	Samples Source
	Targets []Source // what goes with the samples
	Largest int      // samples in a batch, at most
	PadTo   int      // if above 0, rows of every place: Samples.Rows is the same

	// What else goes with the samples.
	Mask    bool
	Colours bool // what becomes of the colours of each sample
	Mix     bool // the weight of each sample in a mixture
	Decoded bool // a table for the device that decodes the pictures
}

// Check fails for samples and targets of which no batch can be made.
func (l *Layout) Check() error {
	if err := l.Samples.checkBatch(l.Largest, 1+len(l.Targets)); err != nil {
		return err
	}
	for k := range l.Targets {
		if err := l.Targets[k].checkBatch(l.Largest, 1+len(l.Targets)); err != nil {
			return err
		}
	}
	return nil
}

// Tail is where in a slab, and in the raw bytes of a device buffer, the things
// lie that go with the samples of a batch, behind them. 0 stands for what there
// is not.
type Tail struct {
	Labels        int // an int32 a sample
	Lengths       int // an int32 a sample, where samples differ in length
	TargetLengths int // the same for each target whose samples do, one behind the other
	Mask          int // a byte a row of each sample
	Colours       int // a [kernels.Colour] a sample
	Mix           int // a float32 a sample
	End           int // of what is copied

	Table int // what becomes of the pictures that the device decodes
	all   int // the end of it
}

// partAlign is the alignment of each part of a slab.
const partAlign = 16

func aligned(at int) int { return (at + partAlign - 1) &^ (partAlign - 1) }

// Tail lays out what goes with the samples of a batch.
func (l *Layout) Tail(c *Contents) Tail { return l.tail(c.end(), len(c.Indexes), c.Samples.Rows) }

// tail lays out what goes with count samples of rows each, which end with
// their targets at a byte of the slab.
func (l *Layout) tail(samples, count, rows int) Tail {
	t := Tail{End: samples}
	take := func(bytes int) (at int) {
		at = aligned(t.End)
		t.End = at + bytes
		return at
	}
	t.Labels = take(4 * count)
	if l.Samples.Spec.Ragged {
		t.Lengths = take(4 * count)
	}
	if n := l.raggedTargets(); n > 0 {
		t.TargetLengths = take(4 * n * count)
	}
	if l.Mask {
		t.Mask = take(count * rows)
	}
	if l.Colours {
		t.Colours = take(count * kernels.ColourBytes)
	}
	if l.Mix {
		t.Mix = take(4 * count)
	}
	end := t.End
	if l.Decoded {
		t.Table = take(count * kernels.PictureBytes)
	}
	t.all, t.End = t.End, end
	return t
}

// raggedTargets is how many targets differ in length.
func (l *Layout) raggedTargets() (n int) {
	for k := range l.Targets {
		if l.Targets[k].Spec.Ragged {
			n++
		}
	}
	return n
}

// Bytes is the size of a full batch.
func (l *Layout) Bytes() int64 {
	full := make([]Block, len(l.Targets))
	for k := range full {
		full[k] = Block{Source: &l.Targets[k], Rows: l.Targets[k].Rows}
	}
	n, rows := l.Largest, l.Samples.Rows
	return int64(l.tail(targetsAt(n*rows*l.Samples.RowBytes, n, full), n, rows).all)
}
