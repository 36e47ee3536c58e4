package main

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/internal/measure"
)

// pageable measures ordinary memory in each direction and in both at once,
// through one engine.
func (b *bench) pageable(ctx context.Context, m *memory) error {
	n := b.bulk
	to, err := m.Alloc(n)
	if err != nil {
		return err
	}
	from, err := m.Alloc(n)
	if err != nil {
		return err
	}
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	up, down, got := make([]byte, n), make([]byte, n), make([]byte, n)
	fill(up, 3)
	fill(got, 4)
	if err := m.upload(from, got); err != nil {
		return err
	}
	sent := append([]byte(nil), got...)

	h2d := func() error { return engine.H2D(ctx, to, up) }
	d2h := func() error { return engine.D2H(ctx, down, from) }
	both := func() error {
		done := make(chan error, 1)
		go func() { done <- d2h() }()
		return errors.Join(h2d(), <-done)
	}
	checked := func(name string, bytes int64, move func() error, toDevice, toHost bool) *sample {
		return &sample{Sample: measure.Sample{
			Row: measure.Row{Name: name, Unit: "GB/s"},
			Check: func() error {
				blankOut(down)
				if err := errors.Join(m.wipe(to, n), move()); err != nil {
					return err
				}
				if toDevice {
					if err := errors.Join(m.download(got, to), same(got, up)); err != nil {
						return err
					}
				}
				if toHost {
					return same(down, sent)
				}
				return nil
			},
			Run:    timed(move),
			Figure: rate(bytes),
		}}
	}
	return b.inTurn(ctx, []*sample{
		checked("pageable h2d", n, h2d, true, false),
		checked("pageable d2h", n, d2h, false, true),
		checked("pageable both", 2*n, both, true, true),
	})
}
