package window

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// blender adds up predictions over the rows of a window, and gives away those that no
// further window touches.
type blender struct {
	*Plan
	out     Sink
	classes int

	sums    []float32 // [classes, rows of a window, rest of the padded volume]
	weights []float32 // sums of weights, of one class
	done    []float32 // [classes, rows, rest of the volume], on their way to the sink
}

// add adds the predictions of a batch.
func (b *blender) add(w batch, result []float32) error {
	inside := product(b.window)
	classes := len(result) / (len(w.at) * inside)
	if classes < 1 || len(result)%(len(w.at)*inside) != 0 {
		return fmt.Errorf("window: %w: predictions of %d windows of %v are %d numbers, no multiple of %d", ErrArgument, len(w.at), b.window, len(result), len(w.at)*inside)
	}
	if b.classes == 0 {
		slab := b.window[0] * product(b.padded[1:])
		b.classes, b.sums, b.weights = classes, make([]float32, classes*slab), make([]float32, slab)
	}
	if classes != b.classes {
		return fmt.Errorf("window: %w: predictions of %d classes, and of %d before", ErrArgument, classes, b.classes)
	}
	slab := len(b.weights)
	// Each class has sums of its own, so that the order of sums stays that of the windows.
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	each := max(1, (classes+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < classes; from += each {
		group.Go(func() error {
			for c := from; c < min(from+each, classes); c++ {
				for i, at := range w.at {
					b.lines(at, func(place, inWindow, n int) {
						sums, part, weight := b.sums[c*slab+place:][:n], result[(i*classes+c)*inside+inWindow:][:n], b.weight[inWindow:][:n]
						for k, v := range part {
							sums[k] += v * weight[k]
						}
					})
				}
			}
			return nil
		})
	}
	for _, at := range w.at {
		b.lines(at, func(place, inWindow, n int) {
			sums, weight := b.weights[place:][:n], b.weight[inWindow:][:n]
			for k, v := range weight {
				sums[k] += v
			}
		})
	}
	return group.Wait()
}

// lines calls fn for each line along the last axis of a window: where it begins in the sums
// of a class, and in the window, and how many elements it has.
func (b *blender) lines(at []int, fn func(place, inWindow, n int)) {
	last := len(b.window) - 1
	if last == 0 {
		fn(0, 0, b.window[0]) // the sums are those of this window
		return
	}
	width := b.window[last]
	index := make([]int, last)
	for k := range product(b.window[:last]) {
		for axis, left := last-1, k; axis >= 0; axis-- {
			index[axis], left = left%b.window[axis], left/b.window[axis]
		}
		place := index[0]
		for axis := 1; axis < last; axis++ {
			place = place*b.padded[axis] + at[axis] + index[axis]
		}
		fn(place*b.padded[last]+at[last], k*width, width)
	}
}

// next is called behind the last window that begins at a row: what lies before the next ones
// is done.
func (b *blender) next(ctx context.Context, group int) error {
	start, end := b.starts[0][group], b.padded[0]
	if group+1 < len(b.starts[0]) {
		end = b.starts[0][group+1]
	}
	rows := min(end-start, b.window[0])
	if err := b.give(ctx, start, rows); err != nil {
		return err
	}
	rest := product(b.padded[1:])
	for _, sums := range append(b.each(), b.weights) {
		n := copy(sums, sums[rows*rest:])
		clear(sums[n:])
	}
	return nil
}

// each are the sums of each class.
func (b *blender) each() (list [][]float32) {
	slab := len(b.weights)
	for c := range b.classes {
		list = append(list, b.sums[c*slab:][:slab])
	}
	return list
}

// give gives rows to the sink, without padding.
func (b *blender) give(ctx context.Context, start, rows int) error {
	from, to := max(start-b.before[0], 0), min(start-b.before[0]+rows, b.size[0])
	if from >= to {
		return nil
	}
	n := len(b.size)
	width, lines := to-from, 1
	if n > 1 {
		width, lines = b.size[n-1], (to-from)*product(b.size[1:n-1])
	}
	b.done = slices.Grow(b.done[:0], b.classes*lines*width)[:b.classes*lines*width]
	data := b.done
	for c, sums := range b.each() {
		for k := range lines {
			// The place of a line in the sums.
			place, left, scale := 0, k, 1
			for axis := n - 2; axis > 0; axis-- {
				place += (left%b.size[axis] + b.before[axis]) * scale
				left, scale = left/b.size[axis], scale*b.padded[axis]
			}
			first := from + b.before[0] - start
			if n == 1 {
				place = first
			} else {
				place = (place+(left+first)*scale)*b.padded[n-1] + b.before[n-1]
			}
			line := data[(c*lines+k)*width:][:width]
			for i := range line {
				line[i] = sums[place+i] / b.weights[place+i]
			}
		}
	}
	if err := b.out.WriteRows(ctx, from, to-from, data); err != nil {
		return fmt.Errorf("window: writing rows %d to %d: %w", from, to, err)
	}
	return nil
}
