package outofcore

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// rowsWorth is how large a matrix must be for its rows to be measured: what
// better tiles gain is more than the measuring takes.
const rowsWorth = 1 << 30

// rowShare measures how much slower the copy engine is with rows of m that have
// gaps between them, once for each distance of rows: it is a matter of the
// host's memory, and not even monotonous in the length of the rows. Tiles of C
// are measured on their way in as well, which changes nothing in them.
func (r *Runner) rowShare(ctx context.Context, m *Matrix, budget int64) (share RowShare, err error) {
	const (
		sample  = 16 << 20
		least   = 1 << 20 // bytes that say something
		repeats = 3
	)
	stride := m.stride() * int64(m.Type.Size())
	boxes, can := device.As[device.BoxCopier](r.dev)
	if !can || int64(len(m.Bytes)) < r.rowsWorth || budget < sample ||
		r.pinner == nil || !r.pinner.CanMap() || !r.pinner.Pinned(m.Bytes) {
		return share, nil
	}
	r.mu.Lock()
	share, ok := r.rows[stride]
	r.mu.Unlock()
	if ok {
		return share, nil
	}
	host, err := r.pinner.Mapped(m.Bytes)
	if err != nil {
		return share, nil // not mapped
	}
	at, free, err := r.alloc(ctx, sample)
	if errors.Is(err, device.ErrOutOfMemory) {
		return share, nil
	}
	if err != nil {
		return share, err
	}
	defer func() { err = errors.Join(err, free()) }()
	s, err := r.dev.NewStream()
	if err != nil {
		return share, err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // waits, before the memory goes
	var marks [2]device.Event
	for i := range marks {
		if marks[i], err = r.dev.NewEvent(0); err != nil {
			return share, err
		}
		defer func() { err = errors.Join(err, marks[i].Close()) }()
	}
	rate := func(box device.Box) (float64, error) {
		took := time.Duration(math.MaxInt64)
		for range repeats {
			err := errors.Join(ctx.Err(), s.Record(marks[0]))
			if err == nil {
				err = errors.Join(boxes.CopyBox(s, box), s.Record(marks[1]), s.Synchronize())
			}
			if err != nil {
				return 0, err
			}
			now, err := marks[1].Since(marks[0])
			if err != nil {
				return 0, err
			}
			took = min(took, max(now, 1))
		}
		return float64(box.RowBytes*box.Rows) / took.Seconds(), nil
	}
	box := func(row, rows int64) device.Box {
		return device.Box{Dst: at, Src: host, RowBytes: row, Rows: rows, Planes: 1, DstRowStride: row, SrcRowStride: stride}
	}
	whole, err := rate(box(min(sample, int64(len(m.Bytes))), 1))
	if err != nil {
		return share, err
	}
	for i := range share {
		row := int64(leastRow) << i
		b := box(row, min(sample/row, m.Rows))
		if row >= stride || b.RowBytes*b.Rows < least || !boxes.CanCopyBox(b) {
			continue
		}
		gaps, err := rate(b)
		if err != nil {
			return share, err
		}
		share[i] = min(gaps/whole, 1)
	}
	r.mu.Lock()
	r.rows[stride] = share
	r.mu.Unlock()
	return share, nil
}
