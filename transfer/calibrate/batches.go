package calibrate

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// spread is how far apart blocks are measured, in blocks. The driver's strided
// copies are slower the further rows are apart.
const spread = 4

// batches measures the ways of copying blocks between pinned memory, or
// device memory, and the device.
func (c *calibration) batches(ctx context.Context, m *linkmodel.Model) error {
	type cost struct {
		model linkmodel.Batch
		call  *trial // two blocks, of the first size
		sizes []int64
		many  []*trial
		count []int64
	}
	half := c.o.MaxBytes / 2
	var costs []*cost
	var all []*trial
	for _, d := range []string{"h2d", "d2h", "d2d"} {
		for _, path := range []transfer.BatchPath{transfer.BatchKernel, transfer.BatchBox, transfer.BatchDriver, transfer.BatchLoop} {
			k := &cost{model: linkmodel.Batch{Path: string(path), Direction: d}}
			try := func(bytes, blocks int64) (*trial, error) {
				box := transfer.Box{Dst: transfer.Device(c.device, half), Src: transfer.Device(c.device.Add(half), half),
					RowBytes: bytes, Rows: blocks, DstRowStride: spread * bytes, SrcRowStride: spread * bytes, Path: path}
				switch d {
				case "h2d":
					box.Src = transfer.Host(c.pinned.Bytes()[:half])
				case "d2h":
					box.Dst = transfer.Host(c.pinned.Bytes()[:half])
				}
				t := &trial{path: &linkmodel.Path{Path: string(path) + " " + d}, bytes: bytes * blocks,
					run: func(ctx context.Context) error { return c.engine.Box(ctx, box) }}
				return t, t.run(ctx)
			}
			var err error
			for bytes := int64(4 << 10); bytes <= 1<<20 && err == nil; bytes *= 4 {
				blocks := min(half/bytes/spread, 2048, 64<<20/bytes)
				if blocks < 2 {
					break
				}
				var t *trial
				if k.call == nil {
					if k.call, err = try(bytes, 2); err != nil {
						break
					}
				}
				if t, err = try(bytes, blocks); err == nil {
					k.sizes, k.many, k.count = append(k.sizes, bytes), append(k.many, t), append(k.count, blocks)
				}
			}
			if err != nil && !errors.Is(err, device.ErrNotSupported) {
				return err
			}
			if err == nil && len(k.many) > 0 {
				costs, all = append(costs, k), append(append(all, k.call), k.many...)
			}
		}
	}
	if err := c.run(ctx, all); err != nil {
		return err
	}
	for _, k := range costs {
		k.model.CallSeconds = stats.Median(k.call.times)
		for i, t := range k.many {
			seconds := stats.Median(t.times)
			// Of a few blocks the call is all there is; some share is theirs.
			each := max(seconds-k.model.CallSeconds, seconds/2) / float64(k.count[i])
			k.model.Block = append(k.model.Block, linkmodel.Point{Bytes: k.sizes[i], Seconds: each})
		}
		m.Batches = append(m.Batches, k.model)
	}
	return nil
}
