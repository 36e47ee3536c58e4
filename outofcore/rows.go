package outofcore

import (
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// rowsWorth is how large a matrix must be for its rows to be measured: what
// better tiles gain is more than the measuring takes.
const rowsWorth = 1 << 30

// smallRows stand in for what is not worth measuring: those of 16 MiB that were
// copied again and again by an H200.
var smallRows = RowShare{0.50, 0.50, 0.61, 0.61, 0.90, 0.88, 1, 1}

// rowShare measures how much slower the copy engine is with rows of m that have
// gaps between them, once for each distance of rows: it is a matter of the
// host's memory, and not even monotonous in the length of the rows. No row is
// copied twice as long as m has others: on an H200 a sample of 16 MiB that was
// copied three times reached 49 GB/s, and tiles of products with the same rows
// 34, probably because the sample's addresses, or its bytes, were in a cache.
// Tiles of C are measured on their way in as well, which changes nothing in
// them; they went out nearly as fast.
func (r *Runner) rowShare(ctx context.Context, m *Matrix, budget int64) (share RowShare, err error) {
	const (
		sample = 16 << 20
		least  = 1 << 20 // bytes that say something
		rows   = 2048    // at most, of a length
		rounds = 2       // of 12,032 rows
	)
	size := int64(m.Type.Size())
	stride := m.stride() * size
	boxes, can := device.As[device.BoxCopier](r.dev)
	if !can || r.pinner == nil || !r.pinner.CanMap() || !r.pinner.Pinned(m.Bytes) {
		return share, nil
	}
	if int64(len(m.Bytes)) < r.rowsWorth || budget < sample {
		return smallRows, nil
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
		return smallRows, nil
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
	took := func(box device.Box) (time.Duration, error) {
		err := errors.Join(ctx.Err(), s.Record(marks[0]))
		if err == nil {
			err = errors.Join(boxes.CopyBox(s, box), s.Record(marks[1]), s.Synchronize())
		}
		if err != nil {
			return 0, err
		}
		return marks[1].Since(marks[0])
	}
	next := int64(0) // row of m
	var fastest [len(share) + 1]float64
	for range rounds {
		for i := range fastest {
			b := device.Box{Dst: at, Src: host, RowBytes: min(sample, int64(len(m.Bytes))), Rows: 1, Planes: 1}
			if i < len(share) {
				b.RowBytes = leastRow << i
				b.Rows = min(rows, sample/b.RowBytes, m.Rows)
				b.DstRowStride, b.SrcRowStride = b.RowBytes, stride
				if b.RowBytes > m.Columns*size || b.RowBytes >= stride || b.RowBytes*b.Rows < least {
					continue
				}
				if next+b.Rows > m.Rows {
					next = 0
				}
				b.Src = host.Add(next * stride)
				next += b.Rows
			}
			if !boxes.CanCopyBox(b) {
				continue
			}
			now, err := took(b)
			if err != nil {
				return share, err
			}
			fastest[i] = max(fastest[i], float64(b.RowBytes*b.Rows)/max(now, 1).Seconds())
		}
	}
	if whole := fastest[len(share)]; whole > 0 {
		for i := range share {
			share[i] = min(fastest[i]/whole, 1)
		}
	}
	r.mu.Lock()
	r.rows[stride] = share
	r.mu.Unlock()
	return share, nil
}
