package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/outofcore"
	"github.com/pinion-gpu/pinion/tier"
)

// stored measures operations on arrays that lie in a store of which a quarter fits
// on the device: bytes of arrays that are used, by time.
func (b *bench) stored(ctx context.Context, m *harness.Memory) error {
	n, piece := int64(2<<30), int64(32<<20)
	if b.o.Quick {
		n, piece = 4<<20, 64<<10
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
	store, err := tier.New(m.Dev, tier.Options{DeviceBytes: 2 * n / 4, HostBytes: 2*n + 2*piece})
	if err != nil {
		return err
	}
	m.Later(store.Close)
	host := make([]byte, n)
	fill(host, dtype.F32, 1)
	const size = 4
	all := outofcore.Matrix{Bytes: host, Type: dtype.F32, Rows: 1, Columns: n / size}
	x, err := outofcore.NewTiled(store, "x", dtype.F32, 1, n/size, 1, piece/size)
	if err != nil {
		return err
	}
	y, err := outofcore.NewTiled(store, "y", dtype.F32, 1, n/size, 1, piece/size)
	if err != nil {
		return err
	}
	if err := x.Write(ctx, all); err != nil {
		return err
	}
	var samples []*sample
	add := func(name string, used int64, work func() error, check func() error) {
		samples = append(samples, &sample{row: row{DeviceBytes: 2 * n / 4}, Sample: measure.Sample{
			Row: measure.Row{Name: name, By: "in a store, 1/4 resident", Unit: "GB/s"},
			Run: func() (float64, error) {
				began := time.Now()
				err := work()
				return float64(used) / time.Since(began).Seconds() / 1e9, err
			},
			Check: func() error { return errors.Join(work(), check()) }}})
	}
	add("2 x + 1", 2*n, func() error {
		_, err := runner.MapTiled(ctx, store, outofcore.TiledMap{Op: kernels.Linear, A: 2, B: 1, X: x, Out: y})
		return err
	}, func() error {
		got := make([]byte, n)
		if err := y.Read(ctx, outofcore.Matrix{Bytes: got, Type: dtype.F32, Rows: 1, Columns: n / size}); err != nil {
			return err
		}
		for i := int64(0); i < n/size; i += 997 {
			if got, want := at(got, dtype.F32, i), 2*at(host, dtype.F32, i)+1; math.Abs(got-want) > 1e-6*math.Abs(want) {
				return fmt.Errorf("element %d is %v, want %v", i, got, want)
			}
		}
		return nil
	})
	var squares float64
	add("sum of squares", n, func() (err error) {
		squares, _, err = runner.ReduceTiled(ctx, store, outofcore.TiledReduction{Op: kernels.SumSquares, X: x})
		return err
	}, func() error { return meanSquare(squares, n/size) })
	return harness.Add(ctx, &b.Document, samples)
}

// meanSquare checks a sum of the squares of numbers between 1 and 2.
func meanSquare(sum float64, numbers int64) error {
	if mean := sum / float64(numbers); mean < 7.0/3*0.99 || mean > 7.0/3*1.01 {
		return fmt.Errorf("the mean square is %v", mean)
	}
	return nil
}
