package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/transfer"
)

// scattered measures blocks that are moved between random places of two
// arenas, and rows of a strided slice.
func (b *bench) scattered(ctx context.Context, m *memory) error {
	to, err := m.Alloc(b.arena)
	if err != nil {
		return err
	}
	from, err := m.Alloc(b.arena)
	if err != nil {
		return err
	}
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	data, err := m.pageable(b.arena)
	if err != nil {
		return err
	}
	fill(data, 1)
	if err := m.upload(from, data); err != nil {
		return err
	}
	back, err := m.pageable(b.arena)
	if err != nil {
		return err
	}
	toDevice, fromDevice := transfer.Device(to, b.arena), transfer.Device(from, b.arena)

	var samples []*sample
	// add adds a sample that moves blocks between arenas; dst is what holds
	// them then on the host, or nil for the device.
	add := func(name string, dst []byte, blocks []transfer.Block, move func() error) {
		samples = append(samples, &sample{Sample: measure.Sample{
			Row: measure.Row{Name: name, Unit: "GB/s"},
			Check: func() error {
				if dst != nil {
					blankOut(dst)
				} else if err := m.wipe(to, b.arena); err != nil {
					return err
				}
				if err := move(); err != nil {
					return err
				}
				got := dst
				if dst == nil {
					got = back
					if err := m.download(got, to); err != nil {
						return err
					}
				}
				return scatteredRight(got, data, blocks)
			},
			Run:    awake(timed(move)),
			Figure: rate(int64(len(blocks)) * blocks[0].Bytes),
		}})
	}
	random := rand.New(rand.NewPCG(7, 7))
	blocks := map[int64][]transfer.Block{}
	for _, kib := range []int64{16, 64, 256} {
		blocks[kib] = randomBlocks(random, kib<<10, b.arena, b.blocks)
	}
	batch := func(dst, src transfer.Memory, blocks []transfer.Block) func() error {
		return func() error { return engine.Batch(ctx, transfer.Batch{Dst: dst, Src: src, Blocks: blocks}) }
	}
	const rowBytes = 16 << 10
	rows := b.blocks / rowBytes
	var slice []transfer.Block
	for i := range rows {
		slice = append(slice, transfer.Block{Src: i * (b.arena / rows), Dst: i * rowBytes, Bytes: rowBytes})
	}

	for _, memory := range []struct {
		name string
		take func(int64) ([]byte, error)
	}{{"", m.pinned}, {", pageable", m.pageable}} {
		up, err := memory.take(b.arena)
		if err != nil {
			b.Skip("scattered"+memory.name, err)
			continue
		}
		down, err := memory.take(b.arena)
		if err != nil {
			b.Skip("scattered"+memory.name, err)
			continue
		}
		copy(up, data)
		for _, kib := range []int64{16, 64, 256} {
			name := fmt.Sprintf("scattered %d KiB ", kib)
			add(name+"h2d"+memory.name, nil, blocks[kib], batch(toDevice, transfer.Host(up), blocks[kib]))
			add(name+"d2h"+memory.name, down, blocks[kib], batch(transfer.Host(down), fromDevice, blocks[kib]))
		}
		add("strided rows 16 KiB h2d"+memory.name, nil, slice, func() error {
			return engine.Box(ctx, transfer.Box{
				Dst: toDevice, Src: transfer.Host(up),
				RowBytes: rowBytes, Rows: rows, SrcRowStride: b.arena / rows,
			})
		})
	}
	for _, kib := range []int64{16, 64, 256} {
		add(fmt.Sprintf("scattered %d KiB d2d", kib), nil, blocks[kib], batch(toDevice, fromDevice, blocks[kib]))
	}
	return b.inTurn(ctx, samples)
}

// randomBlocks pairs random places of two arenas with each other until total
// bytes are reached.
func randomBlocks(random *rand.Rand, bytes, arena, total int64) []transfer.Block {
	places := int(arena / bytes)
	to, from := random.Perm(places), random.Perm(places)
	blocks := make([]transfer.Block, total/bytes)
	for i := range blocks {
		blocks[i] = transfer.Block{Dst: int64(to[i]) * bytes, Src: int64(from[i]) * bytes, Bytes: bytes}
	}
	return blocks
}

// scatteredRight checks that the blocks of src, which are of one size and lie
// on multiples of it, arrived in dst and that everything else is still blank.
func scatteredRight(dst, src []byte, blocks []transfer.Block) error {
	size := blocks[0].Bytes
	written := make([]bool, int64(len(dst))/size)
	for _, k := range blocks {
		if err := same(dst[k.Dst:k.Dst+size], src[k.Src:k.Src+size]); err != nil {
			return fmt.Errorf("block at %d: %w", k.Dst, err)
		}
		written[k.Dst/size] = true
	}
	empty := bytes.Repeat([]byte{blank}, int(size))
	for i, w := range written {
		if at := int64(i) * size; !w {
			if err := same(dst[at:at+size], empty); err != nil {
				return fmt.Errorf("beside the blocks, at %d: %w", at, err)
			}
		}
	}
	return nil
}
