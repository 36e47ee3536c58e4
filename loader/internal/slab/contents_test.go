package slab

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// ragged is a dataset of bytes whose sample i has so many.
type ragged []int

func (r ragged) Len() int { return len(r) }
func (r ragged) Spec() dataset.Spec {
	return dataset.Spec{Shape: []int{slices.Max(r)}, DType: dtype.U8, Ragged: true}
}
func (r ragged) Name(int) string                                   { return "a sample" }
func (r ragged) Label(int) int32                                   { return -1 }
func (r ragged) Length(i int) int                                  { return r[i] }
func (r ragged) NewReader() (dataset.Reader, error)                { return r, nil }
func (r ragged) Close() error                                      { return nil }
func (r ragged) Read(context.Context, dataset.Visit, []byte) error { return nil }

// A longer sample that replaces another widens its block. Everything in the
// blocks behind it moves along, and what was read stays as it was.
func TestReplaceWidens(t *testing.T) {
	ds, target := ragged{3, 1, 20, 5}, ragged{7, 40, 2, 9}
	l := Layout{Samples: NewSource(ds), Largest: 3, Mask: true}
	var err error
	l.Targets, err = NewTargets([]dataset.Dataset{target, ragged{1, 1, 1, 1}}, 4)
	testkit.OK(t, err)
	testkit.OK(t, l.Check())
	c, err := l.Contents([]int{0, 1, 3})
	testkit.OK(t, err)
	c.Slab = &Slab{Bytes: make([]byte, l.Bytes())}
	fill := func(slot int) {
		for k, b := range append([]Block{c.Samples}, c.Targets...) {
			place, err := b.Place(c.Slab.Bytes, slot)
			testkit.OK(t, err)
			for i := range place {
				place[i] = byte(100*k + 10*c.Indexes[slot] + 1)
			}
		}
	}
	check := func(what string) {
		t.Helper()
		for k, b := range append([]Block{c.Samples}, c.Targets...) {
			if b.At%partAlign != 0 {
				t.Errorf("%s: block %d begins at %d", what, k, b.At)
			}
			for slot, i := range c.Indexes {
				sample, padding := b.place(c.Slab.Bytes, slot)
				want := byte(100*k + 10*i + 1)
				if bytes.Count(sample, []byte{want}) != len(sample) || bytes.Count(padding, []byte{0}) != len(padding) {
					t.Errorf("%s: block %d, slot %d: %v and %v, want %d and zeros", what, k, slot, sample, padding, want)
				}
			}
		}
		if tail := l.Tail(&c); int64(tail.End) > l.Bytes() || tail.Labels < c.end() {
			t.Errorf("%s: %+v", what, tail)
		}
	}
	for slot := range c.Indexes {
		fill(slot)
	}
	check("as read")
	l.Replace(&c, 1, 2)
	fill(1)
	check("a longer sample")
	l.Replace(&c, 2, 1)
	fill(2)
	check("a longer target")
	c.Move(0, 2)
	c.Cut(2)
	check("one left out")
}
