package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/outofcore"
)

// arrays measures operations on each element, and reductions: bytes that cross
// the link, both directions together, by time.
func (b *bench) arrays(ctx context.Context, m *harness.Memory) error {
	n := int64(4 << 30)
	if b.o.Quick {
		n = 4 << 20
	}
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	runner, err := outofcore.New(engine, outofcore.Options{})
	if err != nil {
		return err
	}
	m.Later(runner.Close)
	var samples []*sample
	for _, memory := range []string{"pinned", "pageable"} {
		var array [3]outofcore.Array
		for i := range array {
			bytes, err := hostMemory(ctx, m, n, memory == "pinned")
			if err != nil {
				return err
			}
			fill(bytes, dtype.F32, uint64(i+1))
			array[i] = outofcore.Array{Bytes: bytes, Type: dtype.F32}
		}
		x, y, out := array[0], array[1], array[2]
		add := func(name string, crossing int64, work func() error, check func() error) {
			samples = append(samples, &sample{row: row{}, Sample: measure.Sample{
				Row: measure.Row{Name: name, By: memory, Unit: "GB/s"},
				Run: func() (float64, error) {
					began := time.Now()
					err := work()
					return float64(crossing) / time.Since(began).Seconds() / 1e9, err
				},
				Check: func() error {
					if err := work(); err != nil {
						return err
					}
					return check()
				}}})
		}
		same := func(want func(x, y float64) float64) func() error {
			return func() error {
				for i := int64(0); i < n/4; i += 997 {
					if got, w := at(out.Bytes, dtype.F32, i), want(at(x.Bytes, dtype.F32, i), at(y.Bytes, dtype.F32, i)); math.Abs(got-w) > 1e-6*math.Abs(w) {
						return fmt.Errorf("element %d is %v, want %v", i, got, w)
					}
				}
				return nil
			}
		}
		add("2 x + 1", 2*n, func() error {
			_, err := runner.Map(ctx, outofcore.Map{Op: kernels.Linear, A: 2, B: 1, X: x, Out: out})
			return err
		}, same(func(x, _ float64) float64 { return 2*x + 1 }))
		add("x y", 3*n, func() error {
			_, err := runner.Map(ctx, outofcore.Map{Op: kernels.Product, A: 1, X: x, Y: y, Out: out})
			return err
		}, same(func(x, y float64) float64 { return x * y }))
		var squares float64
		add("sum of squares", n, func() (err error) {
			squares, _, err = runner.Reduce(ctx, outofcore.Reduction{Op: kernels.SumSquares, X: x})
			return err
		}, func() error { return meanSquare(squares, n/4) })
	}
	return harness.Add(ctx, &b.Document, samples)
}
