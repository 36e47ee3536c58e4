package transfer

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// BatchModel is the cost of one way of copying many blocks at once:
// CallSeconds + blocks x BlockSeconds + bytes x ByteSeconds.
type BatchModel struct {
	Path         BatchPath `json:"path"`
	Direction    string    `json:"direction"` // "h2d", "d2h" or "d2d"
	CallSeconds  float64   `json:"call_seconds"`
	BlockSeconds float64   `json:"block_seconds"`
	ByteSeconds  float64   `json:"byte_seconds"`
}

// Seconds is what the model says of that many blocks and bytes.
func (b BatchModel) Seconds(blocks, bytes int64) float64 {
	return b.CallSeconds + float64(blocks)*b.BlockSeconds + float64(bytes)*b.ByteSeconds
}

// rowsRanking lists the paths for rows of pinned memory, the fastest first.
func (e *Engine) rowsRanking(d direction, r rows) []BatchPath {
	n, total := int64(r.count()), r.total()
	_, isBox := r.(*boxRows)
	var list []BatchModel
	if e.options.Model != nil {
		for _, b := range e.options.Model.Batches {
			if b.Direction == d.String() && (isBox || b.Path != BatchBox) {
				list = append(list, b)
			}
		}
	}
	if len(list) == 0 {
		switch { // rules of thumb
		case total/n >= 1<<20:
			return []BatchPath{BatchLoop}
		case isBox && total/n >= 4<<10:
			return []BatchPath{BatchBox, BatchKernel, BatchDriver, BatchLoop}
		}
		return []BatchPath{BatchKernel, BatchBox, BatchDriver, BatchLoop}[:]
	}
	slices.SortStableFunc(list, func(a, b BatchModel) int {
		x, y := a.Seconds(n, total), b.Seconds(n, total)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	paths := make([]BatchPath, len(list))
	for i, b := range list {
		paths[i] = b.Path
	}
	return paths
}

// batches measures the ways of copying blocks between pinned memory, or
// device memory, and the device.
func (c *calibration) batches(ctx context.Context, m *Model) error {
	type cost struct {
		model  BatchModel
		trials []*trial
		blocks []int64
	}
	half := c.o.MaxBytes / 2
	var costs []*cost
	var all []*trial
	for _, d := range []direction{hostToDevice, deviceToHost, deviceToDevice} {
		for _, path := range []BatchPath{BatchKernel, BatchDriver, BatchLoop, BatchBox} {
			k := &cost{model: BatchModel{Path: path, Direction: d.String()}}
			for bytes := int64(4 << 10); bytes <= 1<<20; bytes *= 4 {
				blocks := min(half/bytes/2, 2048, 64<<20/bytes)
				if blocks < 2 {
					continue
				}
				box := Box{Dst: Device(c.device, half), Src: Device(c.device.Add(half), half),
					RowBytes: bytes, Rows: blocks, DstRowStride: 2 * bytes, SrcRowStride: 2 * bytes, Path: path}
				switch d {
				case hostToDevice:
					box.Src = Host(c.pinned.Bytes()[:half])
				case deviceToHost:
					box.Dst = Host(c.pinned.Bytes()[:half])
				}
				t := &trial{path: &PathModel{Path: string(path) + " " + d.String()}, bytes: bytes * blocks,
					run: func(ctx context.Context) error { return c.engine.Box(ctx, box) }}
				err := t.run(ctx)
				if errors.Is(err, device.ErrNotSupported) {
					break
				}
				if err != nil {
					return err
				}
				k.trials, k.blocks = append(k.trials, t), append(k.blocks, blocks)
			}
			if len(k.trials) > 0 {
				costs, all = append(costs, k), append(all, k.trials...)
			}
		}
	}
	if err := c.run(ctx, all); err != nil {
		return err
	}
	for _, k := range costs {
		x := make([][3]float64, len(k.trials))
		y := make([]float64, len(k.trials))
		for i, t := range k.trials {
			x[i] = [3]float64{1, float64(k.blocks[i]), float64(t.bytes)}
			y[i] = median(t.times)
		}
		k.model.CallSeconds, k.model.BlockSeconds, k.model.ByteSeconds = fit3(x, y)
		m.Batches = append(m.Batches, k.model)
	}
	return nil
}

// fit3 finds the three coefficients, none below zero, for which the relative
// errors of x·c against y have the least squares: the best of all choices of
// which coefficients are zero. What x leaves open is zero, too.
func fit3(x [][3]float64, y []float64) (a, b, c float64) {
	var best [3]float64
	least := math.Inf(1)
	for use := range 1 << 3 {
		// Normal equations of the columns in use.
		var m [3][4]float64
		for r := range 3 {
			if use>>r&1 == 0 {
				m[r][r] = 1
				continue
			}
			for i := range x {
				w := 1 / (y[i] * y[i])
				for k := range 3 {
					if use>>k&1 == 1 {
						m[r][k] += w * x[i][r] * x[i][k]
					}
				}
				m[r][3] += w * x[i][r] * y[i]
			}
		}
		v := solve3(m)
		sum := 0.0
		for i := range x {
			e := (x[i][0]*v[0]+x[i][1]*v[1]+x[i][2]*v[2])/y[i] - 1
			sum += e * e
		}
		if v[0] >= 0 && v[1] >= 0 && v[2] >= 0 && sum < least { // false for what is no number
			best, least = v, sum
		}
	}
	return best[0], best[1], best[2]
}

// solve3 solves three linear equations by Gauss's elimination with pivots;
// what is singular gives NaN or infinity.
func solve3(m [3][4]float64) (v [3]float64) {
	for c := range 3 {
		p := c
		for r := c + 1; r < 3; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[p][c]) {
				p = r
			}
		}
		m[c], m[p] = m[p], m[c]
		for r := c + 1; r < 3; r++ {
			f := m[r][c] / m[c][c]
			for k := c; k < 4; k++ {
				m[r][k] -= f * m[c][k]
			}
		}
	}
	for c := 2; c >= 0; c-- {
		v[c] = m[c][3]
		for k := c + 1; k < 3; k++ {
			v[c] -= m[c][k] * v[k]
		}
		v[c] /= m[c][c]
	}
	return v
}
