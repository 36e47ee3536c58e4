package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
)

// holes measures small blocks in a pool full of holes that are too small for
// them: 512-byte blocks, every other of which was freed.
func (b *bench) holes(ctx context.Context, m *harness.Memory) error {
	pool, err := b.newPool(m)
	if err != nil {
		return err
	}
	w := b.pinion(ctx, pool, m.Stream)
	kept, err := b.perforate(w)
	if err == nil {
		name := fmt.Sprintf("alloc and free 1 KiB to 2 KiB beside %s holes of 512 B", units.Grouped(int64(b.gaps)))
		// One at a time, the sizes are soon those that were freed last; a
		// thousand at a time are more than are remembered by size.
		err = b.inTurn(ctx, []*sample{
			b.beside(name, w, 1),
			b.beside(name+", 1,000 at a time", w, 1000),
		})
	}
	for _, l := range kept {
		err = errors.Join(err, w.free(l))
	}
	return errors.Join(err, w.stream.Synchronize())
}

// perforate makes the holes and returns what lies between them.
func (b *bench) perforate(w *way) (kept []lease, err error) {
	var dropped []lease
	for i := range 2 * b.gaps {
		l, err := w.alloc(0, 512)
		if err != nil {
			return append(kept, dropped...), err
		}
		if i%2 == 0 {
			kept = append(kept, l)
		} else {
			dropped = append(dropped, l)
		}
	}
	for i, l := range dropped {
		if err := w.free(l); err != nil {
			return append(kept, dropped[i+1:]...), err
		}
	}
	return kept, w.stream.Synchronize()
}

// beside makes the row of blocks of three sizes, batch of which are allocated at
// a time and then freed.
func (b *bench) beside(name string, w *way, batch int) *sample {
	sizes := []int64{1 << 10, 3 << 9, 2 << 10}
	live := make([]lease, 0, batch)
	calls := func(count int) error {
		for done := 0; done < count; done += batch {
			live = live[:0]
			for i := range batch {
				l, err := w.alloc(0, sizes[(done+i)%len(sizes)])
				if err != nil {
					return err
				}
				live = append(live, l)
			}
			for _, l := range live {
				if err := w.free(l); err != nil {
					return err
				}
			}
		}
		return nil
	}
	count := 0
	return &sample{Sample: measure.Sample{
		Row: measure.Row{Name: name, By: w.by, Unit: "ns"},
		Check: func() (err error) {
			if err := distinct([]*way{w}, slices.Repeat(sizes, 40)); err != nil {
				return err
			}
			count, err = b.enough(calls)
			count = (count + batch - 1) / batch * batch
			return err
		},
		Run: func() (float64, error) {
			start := time.Now()
			err := calls(count)
			return measure.Since(start, time.Nanosecond) / float64(count), err
		},
	}}
}
