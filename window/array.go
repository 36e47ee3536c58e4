package window

import (
	"context"
	"fmt"
)

// Array is a volume in memory, as a [Source] and as a [Sink]: Data is [channels, Size…].
type Array struct {
	Size []int
	Data []float32
}

// rows calls fn for the parts of Data that rows are, channel by channel.
func (a *Array) rows(channels, from, rows int, fn func(i int, part []float32)) error {
	rest := product(a.Size[1:])
	if len(a.Data) != channels*a.Size[0]*rest || from < 0 || from+rows > a.Size[0] {
		return fmt.Errorf("%w: rows %d to %d of %d channels of %v, and %d numbers", ErrArgument, from, from+rows, channels, a.Size, len(a.Data))
	}
	for c := range channels {
		fn(c*rows*rest, a.Data[(c*a.Size[0]+from)*rest:][:rows*rest])
	}
	return nil
}

// ReadRows implements [Source].
func (a *Array) ReadRows(_ context.Context, from, rows int, data []float32) error {
	return a.rows(len(data)/max(rows*product(a.Size[1:]), 1), from, rows, func(i int, part []float32) { copy(data[i:], part) })
}

// WriteRows implements [Sink]. It makes Data for the first rows if there are none.
func (a *Array) WriteRows(_ context.Context, from, rows int, data []float32) error {
	classes := len(data) / max(rows*product(a.Size[1:]), 1)
	if a.Data == nil {
		a.Data = make([]float32, classes*product(a.Size))
	}
	return a.rows(classes, from, rows, func(i int, part []float32) { copy(part, data[i:]) })
}
