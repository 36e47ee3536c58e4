package pinned

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Errors that callers can tell apart with [errors.Is], beside those of
// package device: [device.ErrPinLimit], [device.ErrNotSupported],
// [device.ErrArgument] and, for a closed pool, [device.ErrClosed].
var (
	// ErrBudget: the pool's budget has no room for the request.
	ErrBudget = errors.New("pinned memory budget exceeded")
	// ErrFreed: the buffer was freed, or the memory unregistered, before.
	ErrFreed = errors.New("already freed")
	// ErrInUse: the pool was closed while buffers were in use or memory was
	// registered.
	ErrInUse = errors.New("buffers still in use")
)

func (p *Pool) closedError() error {
	return fmt.Errorf("pinned: %w: the pool", device.ErrClosed)
}

func (p *Pool) deviceClosedError(what string, size int64) error {
	return fmt.Errorf("pinned: %s %s: %w: the device %s", what, units.Bytes(size), device.ErrClosed, p.dev.Info().ID)
}

// budgetError says why the budget has no room for size bytes. It is called with
// the pool locked.
func (p *Pool) budgetError(what string, size int64) error {
	largest := max(p.free[shared].largest(), p.free[own].largest())
	registered := ""
	if p.registered > 0 {
		registered = fmt.Sprintf(", registered %s", units.Bytes(p.registered))
	}
	err := fmt.Errorf("pinned: %s %s: %w: budget %s, reserved %s (active %s, pending %s, lost %s)%s, largest free block %s",
		what, units.Bytes(size), ErrBudget, units.Bytes(p.budget), units.Bytes(p.reserved+p.transit),
		units.Bytes(p.active), units.Bytes(p.pendingBytes), units.Bytes(p.lost), registered, units.Bytes(largest))
	if p.mute > 0 {
		err = fmt.Errorf("%w; pending buffers cannot be checked: %w", err, p.eventErr)
	}
	return err
}

// pinError says why size bytes could not be pinned. It is called with the pool
// locked.
func (p *Pool) pinError(what string, size int64, cause error) error {
	return fmt.Errorf("pinned: %s %s: %w (pinned by this pool %s, budget %s)",
		what, units.Bytes(size), cause, units.Bytes(p.reserved-p.pageable+p.registered), units.Bytes(p.budget))
}
