package pinned

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Errors that callers can tell apart with [errors.Is], beside those of
// package device: [device.ErrPinLimit], [device.ErrNotSupported],
// [device.ErrArgument] and, for a closed pool, [device.ErrClosed].
var (
	// ErrBudget: the pool's budget has no room for the request.
	ErrBudget = errors.New("pinned memory budget exceeded")
	// ErrFreed: the buffer was freed before.
	ErrFreed = errors.New("buffer already freed")
	// ErrInUse: the pool was closed while buffers were in use.
	ErrInUse = errors.New("buffers still in use")
)

func (p *Pool) closedError() error {
	return fmt.Errorf("pinned: %w: the pool", device.ErrClosed)
}

// budgetError says why a block of size bytes is not to be had. It is called
// with the pool locked.
func (p *Pool) budgetError(size int64) error {
	largest := max(p.free[shared].largest(), p.free[own].largest())
	err := fmt.Errorf("pinned: alloc %s: %w: budget %s, reserved %s (active %s, pending %s, lost %s), largest free block %s",
		units.Bytes(size), ErrBudget, units.Bytes(p.budget), units.Bytes(p.reserved+p.transit),
		units.Bytes(p.active), units.Bytes(p.pendingBytes), units.Bytes(p.lost), units.Bytes(largest))
	if p.mute > 0 {
		err = fmt.Errorf("%w; pending buffers cannot be checked: %w", err, p.eventErr)
	}
	return err
}

// pinError says why a segment of size bytes could not be pinned. It is called
// with the pool locked.
func (p *Pool) pinError(size int64, cause error) error {
	limit := ""
	if n, unlimited := pagemem.LockLimit(); unlimited {
		limit = ", no limit on locked memory for this process"
	} else if n > 0 {
		limit = fmt.Sprintf(", limit on locked memory for this process %s", units.Bytes(n))
	}
	return fmt.Errorf("pinned: pin %s: %w (pinned by this pool %s, budget %s%s)",
		units.Bytes(size), cause, units.Bytes(p.reserved-p.pageable), units.Bytes(p.budget), limit)
}
