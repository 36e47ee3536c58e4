package window

import (
	"context"
	"fmt"
)

// Labels is a sink that hands to another, as the only class, the number of the class with the
// largest value at each element, such as the label of a segmentation: the first of several. A
// value that is not a number is larger than all others, as NumPy has it.
func (p *Plan) Labels(to Sink) Sink { return &labels{to: to, rest: product(p.size[1:])} }

type labels struct {
	to   Sink
	rest int
	best []float32 // values
	data []float32
}

// WriteRows implements [Sink].
func (l *labels) WriteRows(ctx context.Context, from, rows int, data []float32) error {
	n := rows * l.rest
	if n == 0 || len(data)%n != 0 {
		return fmt.Errorf("window: %w: %d numbers for %d rows of %d", ErrArgument, len(data), rows, l.rest)
	}
	if len(l.data) < n {
		l.best, l.data = make([]float32, n), make([]float32, n)
	}
	best, label := l.best[:n], l.data[:n]
	copy(best, data)
	clear(label)
	for c := 1; c < len(data)/n; c++ {
		for i, v := range data[c*n:][:n] {
			if v > best[i] || v != v && best[i] == best[i] {
				best[i], label[i] = v, float32(c)
			}
		}
	}
	return l.to.WriteRows(ctx, from, rows, label)
}
