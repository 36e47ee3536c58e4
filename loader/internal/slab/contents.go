package slab

import (
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// Contents is the samples of a batch with all that goes with them, and where
// they lie in a slab.
type Contents struct {
	Slab    *Slab // nil until there is one
	Indexes []int
	Labels  []int32 // of each sample
	Samples Block
	Targets []Block // that go with them
	places  int     // in each block: samples, before any was left out
}

// Contents works out how long the samples of a batch and their targets are,
// and where they go.
func (l *Layout) Contents(indexes []int) (c Contents, err error) {
	c = Contents{Indexes: indexes, Labels: make([]int32, len(indexes)), places: len(indexes)}
	c.Samples.Source = &l.Samples
	if err := c.Samples.measure(indexes); err != nil {
		return c, err
	}
	if l.PadTo > 0 {
		c.Samples.Rows = l.PadTo
	}
	if len(l.Targets) == 0 {
		return c, nil
	}
	c.Targets = make([]Block, len(l.Targets))
	for k := range c.Targets {
		c.Targets[k].Source = &l.Targets[k]
		if err := c.Targets[k].measure(indexes); err != nil {
			return c, fmt.Errorf("target %d: %w", k, err)
		}
	}
	targetsAt(c.places*c.Samples.Stride(), c.places, c.Targets)
	return c, nil
}

// Sample is where the sample of a slot is.
func (c *Contents) Sample(slot int) []byte {
	place, _ := c.Samples.place(c.Slab.Bytes, slot)
	return place
}

// TargetsAt is where the targets begin, or at where there are none.
func (c *Contents) TargetsAt(at int) int {
	if len(c.Targets) > 0 {
		return c.Targets[0].At
	}
	return at
}

// end is where the samples and their targets end.
func (c *Contents) end() int {
	last := &c.Samples
	if n := len(c.Targets); n > 0 {
		last = &c.Targets[n-1]
	}
	return last.At + len(c.Indexes)*last.Stride()
}

// Move puts the sample of one slot into another, with all that goes with it.
func (c *Contents) Move(to, from int) {
	c.Samples.move(c.Slab.Bytes, to, from)
	for k := range c.Targets {
		c.Targets[k].move(c.Slab.Bytes, to, from)
	}
	c.Indexes[to], c.Labels[to] = c.Indexes[from], c.Labels[from]
}

// Cut leaves the first n samples.
func (c *Contents) Cut(n int) {
	c.Indexes, c.Labels = c.Indexes[:n], c.Labels[:n]
	c.Samples.cut(n)
	for k := range c.Targets {
		c.Targets[k].cut(n)
	}
}

// Replace makes room for another sample in a slot. Samples that are longer
// than all others widen the places, unless the layout gives their length.
func (l *Layout) Replace(c *Contents, slot, index int) {
	c.Indexes[slot] = index
	c.remeasure(slot, &c.Samples, l.PadTo == 0)
	for k := range c.Targets {
		c.remeasure(slot, &c.Targets[k], true)
	}
}

func (c *Contents) remeasure(slot int, b *Block, widens bool) {
	if b.Lengths == nil {
		return
	}
	n := dataset.Length(b.Source.Dataset, c.Indexes[slot])
	b.Lengths[slot] = int32(n)
	if widens && n > b.Rows && n <= b.Source.Rows {
		c.widen(b, n)
	}
}

// widen makes room for so many rows in every place of a block. The blocks
// behind it make way.
func (c *Contents) widen(b *Block, rows int) {
	was := make([]int, len(c.Targets))
	for k := range was {
		was[k] = c.Targets[k].At
	}
	before := b.Rows
	b.Rows = rows
	targetsAt(c.places*c.Samples.Stride(), c.places, c.Targets)
	for k := len(was) - 1; k >= 0; k-- {
		if t := &c.Targets[k]; t.At != was[k] {
			copy(c.Slab.Bytes[t.At:], c.Slab.Bytes[was[k]:][:c.places*t.Stride()])
		}
	}
	b.Rows = before
	b.widen(c.Slab.Bytes, len(c.Indexes), rows)
}

// Write fills in the parts of the tail that follow from the samples: labels,
// lengths and the mask.
func (c *Contents) Write(t Tail) {
	slab := c.Slab.Bytes
	putInts(slab[t.Labels:], c.Labels)
	if c.Samples.Lengths != nil {
		putInts(slab[t.Lengths:], c.Samples.Lengths)
	}
	at := t.TargetLengths
	for k := range c.Targets {
		lengths := c.Targets[k].Lengths
		putInts(slab[at:], lengths)
		at += 4 * len(lengths)
	}
	if t.Mask != 0 {
		c.putMask(slab[t.Mask:])
	}
}

// putMask writes a byte for each row of each sample.
func (c *Contents) putMask(dst []byte) {
	rows := c.Samples.Rows
	for slot := range c.Indexes {
		n := rows
		if c.Samples.Lengths != nil {
			n = int(c.Samples.Lengths[slot])
		}
		mask := dst[slot*rows:][:rows]
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
