package loader

import (
	"cmp"
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// staging copies slabs that are not pinned by way of a little memory that is.
// The driver's own copy of them reaches a fifth of the link's speed.
type staging struct {
	pool   *pinned.Pool
	engine *transfer.Engine
}

const (
	stagingSlots = 4       // of each copier
	stagingChunk = 2 << 20 // bytes
	leastChunk   = 4 << 10 // bytes that may be asked for: of less, each costs more than its copy
)

// newStaging returns nil where there would be no use in it, or no memory for
// a single copier. Memory is taken by the first slab that is large enough. All
// is how many bytes are to be copied, in slabs of so many.
func newStaging(dev device.Device, o Options, slab, all int64) (*staging, error) {
	if _, can := device.As[device.Pinner](dev); !can || noUse(dev, all) != "" {
		return nil, nil
	}
	chunk := min(cmp.Or(o.ChunkBytes, stagingChunk), slab)
	ring := stagingSlots * pagemem.RoundUp(chunk)
	budget := o.PinBudget - o.PinBudget%ring // a part of a ring is of no use
	if o.PinBudget > 0 && budget == 0 {
		return nil, nil
	}
	pool, err := pinned.NewPool(dev, pinned.Options{Name: "loader staging", Budget: budget, SegmentBytes: ring})
	if err != nil {
		return nil, err
	}
	s := &staging{pool: pool}
	if pool.Stats().BudgetBytes < ring { // little memory is free
		return nil, s.close()
	}
	s.engine, err = transfer.New(dev, transfer.Options{Pool: pool, Copiers: o.Copiers, Slots: stagingSlots, SlotBytes: chunk})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// takes reports whether a slab of n bytes is better staged than left to the
// driver.
func (s *staging) takes(n int) bool { return s != nil && s.engine.Stages(int64(n), false) }

// copy copies host to dst and returns when it is there.
func (s *staging) copy(ctx context.Context, dst device.Ptr, host []byte) error {
	return s.engine.H2D(ctx, dst, host)
}

// bytes is the pinned memory that is taken.
func (s *staging) bytes() int64 {
	if s == nil {
		return 0
	}
	return s.pool.Stats().ReservedBytes
}

func (s *staging) close() error {
	if s == nil {
		return nil
	}
	var err error
	if s.engine != nil {
		err = s.engine.Close()
	}
	return errors.Join(err, s.pool.Close())
}
