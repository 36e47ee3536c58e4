package transfer

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// BatchModel is the cost of one way of copying many blocks at once: a call,
// and then each block, by its size.
type BatchModel struct {
	Path        BatchPath `json:"path"`
	Direction   string    `json:"direction"` // "h2d", "d2h" or "d2d"
	CallSeconds float64   `json:"call_seconds"`
	Block       Curve     `json:"block"` // of one block among many
}

// Seconds is what the model says of that many blocks of equal size.
func (b BatchModel) Seconds(blocks, bytes int64) float64 {
	return b.CallSeconds + float64(blocks)*b.Block.At(bytes)
}

// preferred is the order of paths that take about the same time: the kernel
// is the steadiest.
var preferred = []BatchPath{BatchKernel, BatchBox, BatchDriver, BatchLoop}

// aboutTheSame is how much slower than the fastest a preferred path may be:
// measured at other times the order may be another.
const aboutTheSame = 1.08

// rowsRanking lists the paths for rows of pinned memory, the best first.
func (e *Engine) rowsRanking(d direction, r rows) []BatchPath {
	n := int64(r.count())
	bytes := r.total() / n
	type ranked struct {
		path    BatchPath
		seconds float64
	}
	var list []ranked
	if e.options.Model != nil {
		for _, b := range e.options.Model.Batches {
			if b.Direction == d.String() {
				list = append(list, ranked{b.Path, b.Seconds(n, bytes)})
			}
		}
	}
	if len(list) == 0 { // a rule of thumb
		if bytes >= 1<<20 {
			return []BatchPath{BatchLoop}
		}
		return preferred
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.seconds, b.seconds) })
	least := list[0].seconds
	slices.SortStableFunc(list, func(a, b ranked) int {
		if a.seconds > least*aboutTheSame || b.seconds > least*aboutTheSame {
			return cmp.Compare(a.seconds, b.seconds)
		}
		return cmp.Compare(slices.Index(preferred, a.path), slices.Index(preferred, b.path))
	})
	paths := make([]BatchPath, len(list))
	for i, r := range list {
		paths[i] = r.path
	}
	return paths
}

// spread is how far apart blocks are measured, in blocks. The driver's strided
// copies are slower the further rows are apart.
const spread = 4

// batches measures the ways of copying blocks between pinned memory, or
// device memory, and the device.
func (c *calibration) batches(ctx context.Context, m *Model) error {
	type cost struct {
		model BatchModel
		call  *trial // two blocks, of the first size
		sizes []int64
		many  []*trial
		count []int64
	}
	half := c.o.MaxBytes / 2
	var costs []*cost
	var all []*trial
	for _, d := range []direction{hostToDevice, deviceToHost, deviceToDevice} {
		for _, path := range preferred {
			k := &cost{model: BatchModel{Path: path, Direction: d.String()}}
			try := func(bytes, blocks int64) (*trial, error) {
				box := Box{Dst: Device(c.device, half), Src: Device(c.device.Add(half), half),
					RowBytes: bytes, Rows: blocks, DstRowStride: spread * bytes, SrcRowStride: spread * bytes, Path: path}
				switch d {
				case hostToDevice:
					box.Src = Host(c.pinned.Bytes()[:half])
				case deviceToHost:
					box.Dst = Host(c.pinned.Bytes()[:half])
				}
				t := &trial{path: &PathModel{Path: string(path) + " " + d.String()}, bytes: bytes * blocks,
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
		k.model.CallSeconds = median(k.call.times)
		for i, t := range k.many {
			seconds := median(t.times)
			// Of a few blocks the call is all there is; some share is theirs.
			each := max(seconds-k.model.CallSeconds, seconds/2) / float64(k.count[i])
			k.model.Block = append(k.model.Block, Point{k.sizes[i], each})
		}
		m.Batches = append(m.Batches, k.model)
	}
	return nil
}
