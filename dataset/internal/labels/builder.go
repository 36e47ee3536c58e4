package labels

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
)

// Builder collects labels as rows come: whole numbers, which are classes; texts,
// which become classes with a table; or other numbers, or several of them, which
// are targets.
type Builder struct {
	// Text: labels are texts.
	Text bool
	// Width is how many numbers a row has.
	Width int

	numbers    []float64
	fractional bool
	classes    []int32 // of texts, in the order in which they came first
	numberOf   map[string]int32
}

// Reset forgets all rows.
func (b *Builder) Reset() {
	b.numbers, b.classes, b.fractional = b.numbers[:0], b.classes[:0], false
	clear(b.numberOf)
}

// Number adds a number. A whole one that stands alone has to fit 32 bits.
func (b *Builder) Number(v float64) error {
	whole := v == math.Trunc(v)
	if b.Width == 1 && whole && float64(int32(v)) != v {
		return fmt.Errorf("%w: label %v does not fit 32 bits", dataset.ErrFormat, v)
	}
	b.fractional = b.fractional || !whole
	b.numbers = append(b.numbers, v)
	return nil
}

// Name adds a text. An empty one is no label.
func (b *Builder) Name(text string) {
	if text == "" {
		b.classes = append(b.classes, -1)
		return
	}
	n, known := b.numberOf[text]
	if !known {
		if b.numberOf == nil {
			b.numberOf = map[string]int32{}
		}
		n = int32(len(b.numberOf))
		b.numberOf[text] = n
	}
	b.classes = append(b.classes, n)
}

// Append adds the rows of another builder of the same kind.
func (b *Builder) Append(rows *Builder) {
	b.numbers = append(b.numbers, rows.numbers...)
	b.fractional = b.fractional || rows.fractional
	names := rows.names()
	for _, c := range rows.classes {
		if c < 0 {
			b.Name("")
		} else {
			b.Name(names[c])
		}
	}
}

// names returns the texts in the order in which they came first.
func (b *Builder) names() []string {
	names := make([]string, len(b.numberOf))
	for name, n := range b.numberOf {
		names[n] = name
	}
	return names
}

// Set is what labels are.
type Set struct {
	Labels  []int32         // nil: none
	Names   []string        // of the classes, sorted; nil where labels are numbers
	Targets dataset.Dataset // numbers that are no classes; nil: none
}

// Finish returns the labels. The name is that of the dataset.
func (b *Builder) Finish(name string) (s Set, err error) {
	switch {
	case b.Text:
		s.Names = slices.Sorted(maps.Keys(b.numberOf))
		sorted := make([]int32, len(s.Names))
		for i, name := range s.Names {
			sorted[b.numberOf[name]] = int32(i)
		}
		for i, c := range b.classes {
			if c >= 0 {
				b.classes[i] = sorted[c]
			}
		}
		s.Labels = b.classes
	case len(b.numbers) == 0:
	case b.fractional || b.Width > 1:
		targets := make([]float32, len(b.numbers))
		for i, v := range b.numbers {
			targets[i] = float32(v)
		}
		var shape []int
		if b.Width > 1 {
			shape = []int{b.Width}
		}
		s.Targets, err = dataset.NewMemoryOf(targets, shape, dataset.MemoryOptions{Name: name + ": labels"})
	default:
		s.Labels = make([]int32, len(b.numbers))
		for i, v := range b.numbers {
			s.Labels[i] = int32(v)
		}
	}
	return s, err
}
