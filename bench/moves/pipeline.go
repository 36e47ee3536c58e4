package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// pipelines measures data that stream through the device, into it only and in
// and out, with computing that takes as long as the slower copy: the case in
// which overlap gains most and is hardest. A row is in per cent of a bound, the
// same work without an order, which is measured in turn with it.
func (b *bench) pipelines(ctx context.Context, m *memory) error {
	set, err := kernels.Load(b.dev)
	if err != nil {
		return err
	}
	m.Later(set.Close)
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	var result, from, to device.Ptr
	for _, p := range []*device.Ptr{&result, &from, &to} {
		if *p, err = m.Alloc(b.pipeline); err != nil {
			return err
		}
	}
	var samples []*sample
	for _, memory := range []struct {
		name  string
		take  func(int64) ([]byte, error)
		chunk int64
	}{
		{"pinned", m.pinned, 0},
		// Copiers have little to share in a chunk of the default size.
		{"pageable", m.pageable, b.pipeline / 16},
	} {
		in, err := memory.take(b.pipeline)
		var out []byte
		if err == nil {
			out, err = memory.take(b.pipeline)
		}
		fill(in, 5)
		fill(out, 6) // faults its pages in
		for _, t := range []*stream{
			{name: "pipeline in, " + memory.name, in: in, result: result},
			{name: "pipeline in and out, " + memory.name, in: in, out: out},
		} {
			if err != nil {
				b.Skip(t.name, err)
				continue
			}
			t.engine, t.kernels, t.chunk, t.from, t.to = engine, set, memory.chunk, from, to
			list, err := t.samples(ctx, m)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			samples = append(samples, list...)
		}
	}
	return b.inTurn(ctx, samples)
}

// stream is one array on its way through the device: casts of int8 to uint8,
// over and over.
type stream struct {
	name    string
	engine  *transfer.Engine
	kernels *kernels.Set
	in, out []byte
	result  device.Ptr // without out, takes what is computed
	from    device.Ptr // as large as in
	to      device.Ptr // as large as out
	chunk   int64      // bytes; 0: as the engine chooses
	casts   float64    // of each byte; the part of the last that is none runs over a part of the chunk
}

// compute queues the casts of a chunk.
func (t *stream) compute(s device.Stream, c pipeline.Chunk) error {
	to := c.Out
	if t.out == nil {
		to = t.result.Add(c.Offset)
	}
	for left := max(int64(t.casts*float64(c.InBytes)), c.InBytes); left > 0; left -= c.InBytes {
		if err := t.kernels.Cast(s, to, dtype.U8, c.In, dtype.I8, min(left, c.InBytes)); err != nil {
			return err
		}
	}
	return nil
}

func (t *stream) run(ctx context.Context) (pipeline.Report, error) {
	p := pipeline.Pipeline{In: pipeline.Bytes(t.in), Compute: t.compute, ChunkBytes: t.chunk}
	if t.out != nil {
		p.Out = pipeline.Bytes(t.out)
	}
	return pipeline.Run(ctx, t.engine, p)
}

// check runs t and looks at what it computed.
func (t *stream) check(ctx context.Context, m *memory) error {
	got, total := t.out, int64(len(t.in))
	if got != nil {
		blankOut(got)
	} else if err := m.wipe(t.result, total); err != nil {
		return err
	}
	if _, err := t.run(ctx); err != nil {
		return err
	}
	if got == nil {
		got = make([]byte, total)
		if err := m.download(got, t.result); err != nil {
			return err
		}
	}
	return clampedRight(got, t.in)
}

// samples balances t's computing with its copies and prepares its rows: the
// same work without an order, and the pipeline in per cent of that. The fastest
// repeat of either is the bound: one that is faster than the work without an
// order shows that it can be done that fast.
func (t *stream) samples(ctx context.Context, m *memory) ([]*sample, error) {
	warm, err := t.run(ctx)
	if err != nil {
		return nil, err
	}
	chunk, total := warm.ChunkBytes, int64(len(t.in))
	if err := t.balance(ctx, m, chunk); err != nil {
		return nil, err
	}
	unordered := &sample{Sample: measure.Sample{
		Row:    measure.Row{Name: t.name + ", without order", Unit: "GB/s"},
		Run:    t.unordered(ctx, m, chunk),
		Figure: rate(total),
	}}
	ordered := &sample{}
	var setups []float64
	least := func() float64 { return min(slices.Min(unordered.Runs), slices.Min(ordered.Runs)) }
	*ordered = sample{
		Sample: measure.Sample{
			Row:   measure.Row{Name: t.name, Unit: "%"},
			Check: func() error { return t.check(ctx, m) },
			Run: func() (float64, error) {
				report, err := t.run(ctx)
				setups = append(setups, report.Setup.Seconds())
				return report.Wall.Seconds(), err
			},
			Figure: func(wall float64) float64 { return 100 * (least() / wall) },
		},
		finish: func(r *row) {
			r.ChunkBytes, r.SetupSeconds = chunk, stats.Median(setups)
			r.GBPerS = float64(total) / 1e9 / least() * r.Value / 100
		},
	}
	return []*sample{unordered, ordered}, nil
}

// clampedRight checks that got is sent with negative int8 made zero.
func clampedRight(got, sent []byte) error {
	wrong := make([]error, len(got)/partBytes+1)
	inParts(got, func(i int, part []byte) {
		for k, v := range part {
			if was := sent[i*partBytes+k]; v != byte(max(int8(was), 0)) {
				wrong[i] = fmt.Errorf("byte %d of %d: %#x became %#x", i*partBytes+k, len(got), was, v)
				return
			}
		}
	})
	return errors.Join(wrong...)
}
