package window

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Source has a volume of some channels.
type Source interface {
	// ReadRows reads rows of the first axis, from one on: data is [channels, rows, the other
	// axes]. Rows are asked for in order, each once.
	ReadRows(ctx context.Context, from, rows int, data []float32) error
}

// Sink takes a result of some classes.
type Sink interface {
	// WriteRows takes rows of the first axis, from one on: data is [classes, rows, the other
	// axes], and belongs to the caller again when it returns. Rows come in order, each once.
	WriteRows(ctx context.Context, from, rows int, data []float32) error
}

// Predict is a model: windows are [n, channels, a window], and the result is [n, classes, a
// window], which is read before the next call, and may be windows, written over. It must not
// keep windows.
type Predict func(ctx context.Context, windows []float32, n int) ([]float32, error)

// batch is windows that are to be predicted. All of them begin at the same row.
type batch struct {
	data  []float32
	at    [][]int // where each begins
	group int     // number of the row's start
	last  bool    // of its group
}

// Run predicts all windows of a volume, and gives the result to out. The windows of the next
// prediction are made while the model runs. An error of source, model or sink ends it, and
// names the window or the rows; what the sink has got then is not all.
func (p *Plan) Run(ctx context.Context, channels int, in Source, predict Predict, out Sink) error {
	return p.run(ctx, channels, in, predict, out, false)
}

// run is Run. Predictions are added up while the next call runs if their memory stays as it is
// then.
func (p *Plan) run(ctx context.Context, channels int, in Source, predict Predict, out Sink, stays bool) error {
	if channels < 1 {
		return fmt.Errorf("window: %w: %d channels", ErrArgument, channels)
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := func(fn func() error) {
		group.Go(func() error {
			exited := true
			defer func() {
				if exited {
					cancel(errExited)
				}
			}()
			err := fn()
			exited = false
			return err
		})
	}
	free, ready, predicted, added := make(chan []float32, 3), make(chan batch, 1), make(chan prediction), make(chan bool)
	for range cap(free) {
		free <- make([]float32, p.o.Batch*channels*product(p.window))
	}
	start(func() error {
		defer close(ready)
		g := &gatherer{Plan: p, channels: channels, in: in}
		return g.run(ctx, free, ready)
	})
	start(func() error {
		defer close(predicted)
		for w := range ready {
			result, err := predict(ctx, w.data, len(w.at))
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("window: predicting %d windows from %v on: %w", len(w.at), w.at[0], err)
			}
			if !pass(ctx, predicted, prediction{w, result}) || !stays && !wait(ctx, added) {
				return ctx.Err()
			}
		}
		return nil
	})
	start(func() error {
		b := &blender{Plan: p, out: out}
		for w := range predicted {
			if err := b.add(w.batch, w.result); err != nil {
				return err
			}
			free <- w.data[:cap(w.data)]
			if !stays && !pass(ctx, added, true) {
				return ctx.Err()
			}
			if w.last {
				if err := b.next(ctx, w.group); err != nil {
					return err
				}
			}
		}
		return nil
	})
	err := group.Wait()
	switch {
	case context.Cause(ctx) == errExited:
		return fmt.Errorf("window: %w", errExited)
	case err != nil && err == ctx.Err():
		return fmt.Errorf("window: %w", err)
	}
	return err
}

// errExited: source, model or sink has called runtime.Goexit, as a test that fails does.
var errExited = errors.New("a goroutine that was needed has exited")

// prediction is what was predicted of a batch.
type prediction struct {
	batch
	result []float32
}

// pass hands a value on, unless ctx ends first.
func pass[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// wait takes a value, unless ctx ends first.
func wait[T any](ctx context.Context, from <-chan T) bool {
	select {
	case <-from:
		return true
	case <-ctx.Done():
		return false
	}
}

// gatherer cuts windows out of the volume.
type gatherer struct {
	*Plan
	channels int
	in       Source

	slab     []float32 // [channels, rows, rest], rows of the volume
	fresh    []float32 // rows that come to it
	from, to int       // which are in it
}

func (g *gatherer) run(ctx context.Context, free <-chan []float32, ready chan<- batch) error {
	others := places(g.starts[1:])
	for group, start := range g.starts[0] {
		if err := g.fetch(ctx, start); err != nil {
			return err
		}
		for i := 0; i < len(others); i += g.o.Batch {
			w := batch{group: group, last: i+g.o.Batch >= len(others)}
			select {
			case w.data = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			one := g.channels * product(g.window)
			for _, rest := range others[i:min(i+g.o.Batch, len(others))] {
				g.cut(w.data[len(w.at)*one:][:one], start, rest)
				w.at = append(w.at, append([]int{start}, rest...))
			}
			w.data = w.data[:len(w.at)*one]
			if !pass(ctx, ready, w) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// places are all combinations of starts, the last axis first.
func places(starts [][]int) [][]int {
	list := [][]int{nil}
	for _, axis := range starts {
		var longer [][]int
		for _, a := range list {
			for _, s := range axis {
				longer = append(longer, append(append([]int(nil), a...), s))
			}
		}
		list = longer
	}
	return list
}

// fetch has the rows in the slab that windows from a row on read.
func (g *gatherer) fetch(ctx context.Context, start int) error {
	rest := product(g.size[1:])
	from := max(start-g.before[0], 0)
	to := min(start-g.before[0]+g.window[0], g.size[0])
	rows, kept := to-from, max(g.to-from, 0)
	slab := g.slab // in its place: rows move down
	if len(slab) != g.channels*rows*rest {
		slab = make([]float32, g.channels*rows*rest)
	}
	old := g.to - g.from
	for c := range g.channels {
		copy(slab[c*rows*rest:][:kept*rest], g.slab[(c*old+old-kept)*rest:])
	}
	if fresh := rows - kept; fresh > 0 {
		data := slab
		if kept > 0 {
			data = slices.Grow(g.fresh[:0], g.channels*fresh*rest)[:g.channels*fresh*rest]
			g.fresh = data
		}
		if err := g.in.ReadRows(ctx, from+kept, fresh, data); err != nil {
			return fmt.Errorf("window: reading rows %d to %d: %w", from+kept, to, err)
		}
		if err := g.finite(data, from+kept, fresh); err != nil {
			return err
		}
		for c := 0; c < g.channels && kept > 0; c++ {
			copy(slab[(c*rows+kept)*rest:], data[c*fresh*rest:][:fresh*rest])
		}
	}
	g.slab, g.from, g.to = slab, from, to
	return nil
}

// finite reports the first element that is not.
func (g *gatherer) finite(data []float32, from, rows int) error {
	if g.o.AllowNotFinite {
		return nil
	}
	for i, v := range data {
		if v-v != 0 { // NaN or infinite
			at := make([]int, len(g.size))
			rest := i % (rows * product(g.size[1:]))
			for k := len(at) - 1; k > 0; k-- {
				at[k], rest = rest%g.size[k], rest/g.size[k]
			}
			at[0] = from + rest
			return fmt.Errorf("window: %w: the volume has %v at %v", ErrNotFinite, v, at)
		}
	}
	return nil
}

// cut copies a window, with padding where the volume ends.
func (g *gatherer) cut(to []float32, start int, rest []int) {
	last := len(g.size) - 1
	width, line := g.window[last], g.size[last]
	lines := product(g.window[:last])
	begin := start // of the last axis
	if last > 0 {
		begin = rest[last-1]
	}
	inside := begin-g.before[last] >= 0 && begin-g.before[last]+width <= line
	at := make([]int, len(g.size))
	for c := range g.channels {
		for k := range lines {
			// Which line of the slab this is: -1 is none.
			for axis, left := last-1, k; axis >= 0; axis-- {
				at[axis], left = left%g.window[axis], left/g.window[axis]
			}
			row := c * (g.to - g.from)
			for axis := range last {
				first := start
				if axis > 0 {
					first = rest[axis-1]
				}
				s := g.source(axis, first+at[axis])
				if s < 0 {
					row = -1
					break
				}
				if axis == 0 {
					row += s - g.from
				} else {
					row = row*g.size[axis] + s
				}
			}
			to := to[(c*lines+k)*width:][:width]
			switch {
			case row < 0:
				for i := range to {
					to[i] = g.o.Fill
				}
			case inside && last > 0:
				copy(to, g.slab[row*line+begin-g.before[last]:])
			default:
				for i := range to {
					if s := g.source(last, begin+i); s < 0 {
						to[i] = g.o.Fill
					} else if last == 0 {
						to[i] = g.slab[c*(g.to-g.from)+s-g.from]
					} else {
						to[i] = g.slab[row*line+s]
					}
				}
			}
		}
	}
}
