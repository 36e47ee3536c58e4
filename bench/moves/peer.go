package main

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/transfer"
)

// peer measures copies to another device of the same backend. Where there is
// none, there is no row.
func (b *bench) peer(ctx context.Context, m *memory) error {
	others, err := m.Others()
	if err != nil || len(others) == 0 {
		return err
	}
	return b.peerCopies(ctx, m, others[0])
}

// peerCopies measures copies from the device of b to other: as the engine does
// them, and staged through host memory.
func (b *bench) peerCopies(ctx context.Context, m *memory, other device.Device) error {
	memoryThere, err := harness.NewMemory(other)
	if err != nil {
		return err
	}
	m.Later(memoryThere.Close)
	there := &memory{memoryThere}
	from, err := m.Alloc(b.bulk)
	if err != nil {
		return err
	}
	to, err := there.Alloc(b.bulk)
	if err != nil {
		return err
	}
	engine, err := there.engine(transfer.Options{})
	if err != nil {
		return err
	}
	sent, got := make([]byte, b.bulk), make([]byte, b.bulk)
	fill(sent, 10)
	if err := m.upload(from, sent); err != nil {
		return err
	}
	copied := func(name string, staged bool) *sample {
		way := "straight"
		if staged || !engine.PeerAccess(b.dev) {
			way = "through host memory"
		}
		move := func() error {
			return engine.Peer(ctx, transfer.PeerCopy{Dst: to, From: b.dev, Src: from, Bytes: b.bulk, Staged: staged})
		}
		return &sample{
			Sample: measure.Sample{
				Row: measure.Row{Name: name, Unit: "GB/s"},
				Check: func() error {
					return errors.Join(there.wipe(to, b.bulk), move(), there.download(got, to), same(got, sent))
				},
				Run:    timed(move),
				Figure: rate(b.bulk),
			},
			finish: func(r *row) { r.Path = way },
		}
	}
	return b.inTurn(ctx, []*sample{copied("peer copy", false), copied("peer copy, staged", true)})
}
