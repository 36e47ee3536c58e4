package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
)

// loop is what a program does over and over: in each iteration it needs
// tensors, writes all of them, and drops them.
type loop struct {
	name  string
	sizes [][]int64 // in bytes, of the tensors of each iteration
	waits bool      // for the stream after each iteration, as one does that reads a result
}

// loops measures loops of tensors of one size, of several, and of small ones.
func (b *bench) loops(ctx context.Context, m *harness.Memory) error {
	m.Later(b.release)
	for _, l := range b.patterns() {
		if err := b.measureLoop(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// patterns are the loops, the same on every machine.
func (b *bench) patterns() []*loop {
	random := rand.New(rand.NewPCG(7, 0))
	times := func(tensors int, size func() int64) (sizes [][]int64) {
		for range b.iterations {
			iteration := make([]int64, tensors)
			for i := range iteration {
				iteration[i] = size()
			}
			sizes = append(sizes, iteration)
		}
		return sizes
	}
	same := times(1, func() int64 { return b.tensor })
	// Any number of bytes from half the size to all of it.
	varied := times(1, func() int64 { return b.tensor/2 + random.Int64N(b.tensor/2+1) })
	// As many of 1 to 2 KiB as of 2 to 4 MiB.
	small := times(b.tensors, func() int64 {
		return int64(float64(b.smallest) * math.Pow(float64(b.largest)/float64(b.smallest), random.Float64()))
	})
	name := fmt.Sprintf("loop of %d: ", b.iterations)
	return []*loop{
		{name: name + units.DecimalBytes(b.tensor), sizes: same},
		{name: name + units.DecimalBytes(b.tensor) + ", waited for each time", sizes: same, waits: true},
		{name: name + units.DecimalBytes(b.tensor/2) + " to " + units.DecimalBytes(b.tensor), sizes: varied},
		{name: fmt.Sprintf("%s%d tensors of %s to %s", name, b.tensors, units.Bytes(b.smallest), units.Bytes(b.largest)), sizes: small},
	}
}

// measureLoop measures l in all ways, with its own memory.
func (b *bench) measureLoop(ctx context.Context, l *loop) (err error) {
	m, err := harness.NewMemory(b.dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	slots := l.slots()
	if len(slots) == 1 {
		slots = append(slots, slots[0]) // two are live at once when they are checked
	}
	buffers, err := b.preallocated(m, slots)
	if err != nil {
		return err
	}
	pool, err := b.newPool(m)
	if err != nil {
		return err
	}
	var together int64
	for _, n := range slots {
		together += n
	}
	var samples []*sample
	for _, w := range []*way{
		buffers,
		b.driver(m.Stream),
		b.async(m.Stream, false, 0),
		b.async(m.Stream, true, together),
		b.pinion(ctx, pool, m.Stream),
	} {
		s := &sample{Sample: measure.Sample{
			Row: measure.Row{Name: l.name, By: w.by, Unit: "ms"},
			Check: func() error {
				if err := w.prepare(); err != nil {
					return err
				}
				if err := distinct([]*way{w}, slots); err != nil {
					return err
				}
				return l.check(m, w)
			},
			Run: func() (float64, error) {
				if err := w.prepare(); err != nil {
					return 0, err
				}
				start := time.Now()
				err := l.run(w, func(int, []lease) error { return nil })
				return measure.Since(start, time.Millisecond), err
			},
		}}
		if len(samples) > 0 {
			s.against = samples[0]
		}
		samples = append(samples, s)
	}
	return b.inTurn(ctx, samples)
}

// slots are the largest size of each tensor of an iteration.
func (l *loop) slots() []int64 {
	slots := slices.Clone(l.sizes[0])
	for _, iteration := range l.sizes {
		for i, n := range iteration {
			slots[i] = max(slots[i], n)
		}
	}
	return slots
}

// run runs the loop once and waits for the stream. It calls written once all
// tensors of an iteration are written, or queued to be.
func (l *loop) run(w *way, written func(iteration int, live []lease) error) (err error) {
	live := make([]lease, 0, len(l.sizes[0]))
	freed := 0
	defer func() {
		for _, tensor := range live[freed:] { // after an error
			err = errors.Join(err, w.free(tensor))
		}
	}()
	for i, iteration := range l.sizes {
		for slot, n := range iteration {
			tensor, err := w.alloc(slot, n)
			if err != nil {
				return err
			}
			live = append(live, tensor)
			if err := w.stream.Memset(tensor.ptr, l.value(i, slot), n); err != nil {
				return err
			}
		}
		if err := written(i, live); err != nil {
			return err
		}
		for _, tensor := range live {
			freed++
			if err := w.free(tensor); err != nil {
				return err
			}
		}
		live, freed = live[:0], 0
		if l.waits {
			if err := w.stream.Synchronize(); err != nil {
				return err
			}
		}
	}
	return w.stream.Synchronize()
}

// value is what a tensor is filled with.
func (l *loop) value(iteration, slot int) byte { return mark(iteration*len(l.sizes[0]) + slot) }

// check runs the loop and queues a copy of the first and the last byte of every
// tensor before it is freed.
func (l *loop) check(m *harness.Memory, w *way) error {
	const edge = 16
	tensors := len(l.sizes[0])
	n := int64(len(l.sizes) * tensors * 2 * edge)
	record, err := m.Dev.Alloc(n)
	if err != nil {
		return err
	}
	err = l.run(w, func(i int, live []lease) error {
		to := record.Add(int64(i * tensors * 2 * edge))
		for slot, tensor := range live {
			for _, from := range []device.Ptr{tensor.ptr, tensor.ptr.Add(l.sizes[i][slot] - edge)} {
				if err := w.stream.CopyD2D(to, from, edge); err != nil {
					return err
				}
				to = to.Add(edge)
			}
		}
		return nil
	})
	got := make([]byte, n)
	if err == nil {
		err = errors.Join(w.stream.CopyD2H(got, record), w.stream.Synchronize())
	}
	if err = errors.Join(err, m.Dev.Free(record)); err != nil {
		return err
	}
	for i := range l.sizes {
		for slot := range tensors {
			at := (i*tensors + slot) * 2 * edge
			if err := filled(got[at:][:2*edge], l.value(i, slot)); err != nil {
				return fmt.Errorf("iteration %d, tensor %d, ends: %w", i, slot, err)
			}
		}
	}
	return nil
}
