package slab

import (
	"cmp"
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// Staging copies slabs that are not pinned through a little memory that is. The
// driver's own copy of them reaches a fifth of the link's speed. A nil Staging
// copies nothing.
type Staging struct {
	pool   *pinned.Pool
	engine *transfer.Engine
}

const (
	stagingSlots = 4       // of each copier
	stagingChunk = 2 << 20 // bytes

	// LeastChunk is the fewest bytes of a chunk: smaller ones cost more than
	// their copy.
	LeastChunk = 4 << 10
)

// Copiers says what a [Staging] may take; each field has a default.
type Copiers struct {
	Most       int   // goroutines that copy
	ChunkBytes int64 // that each moves at a time
	Budget     int64 // pinned memory of all
}

// NewStaging returns nil if staging would gain nothing, or if there is too
// little memory for a single copier. The first slab that is large enough takes
// the memory. all is how many bytes are to be copied, in slabs of so many.
func NewStaging(dev device.Device, o Copiers, slab, all int64) (*Staging, error) {
	if _, can := device.As[device.Pinner](dev); !can || noUse(dev, all) != "" {
		return nil, nil
	}
	chunk := min(cmp.Or(o.ChunkBytes, stagingChunk), slab)
	ring := stagingSlots * pagemem.RoundUp(chunk)
	budget := o.Budget - o.Budget%ring // part of a ring is useless
	if o.Budget > 0 && budget == 0 {
		return nil, nil
	}
	pool, err := pinned.NewPool(dev, pinned.Options{Name: "loader staging", Budget: budget, SegmentBytes: ring})
	if err != nil {
		return nil, err
	}
	s := &Staging{pool: pool}
	if pool.Stats().BudgetBytes < ring { // little memory is free
		return nil, s.Close()
	}
	s.engine, err = transfer.New(dev, transfer.Options{Pool: pool, Copiers: o.Most, Slots: stagingSlots, SlotBytes: chunk})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Takes reports whether a copy of n bytes is better staged than left to the
// driver.
func (s *Staging) Takes(n int) bool { return s != nil && s.engine.Stages(int64(n), false) }

// Copy copies host to dst and returns when it is there.
func (s *Staging) Copy(ctx context.Context, dst device.Ptr, host []byte) error {
	return s.engine.H2D(ctx, dst, host)
}

// Bytes is the pinned memory that is taken.
func (s *Staging) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.pool.Stats().ReservedBytes
}

// Close ends the copiers and gives their memory back.
func (s *Staging) Close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.engine != nil {
		err = s.engine.Close()
	}
	return errors.Join(err, s.pool.Close())
}
