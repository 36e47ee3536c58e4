package sysmem

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/units"
)

// ErrMemory: the machine, or the process's control group, has not that much
// memory left.
var ErrMemory = errors.New("not enough host memory")

// Check fails with [ErrMemory] when n more bytes are not available. Ask before
// taking much: beyond the limit of a control group the system does not refuse,
// it kills. Where nothing is known, Check allows everything.
func Check(n int64) error { return now().check(n) }

func (m memory) check(n int64) error {
	if m.limit == 0 || n <= m.available {
		return nil
	}
	return fmt.Errorf("%w: %s needed, %s of %s available to this process",
		ErrMemory, units.Bytes(n), units.Bytes(m.available), units.Bytes(m.limit))
}

// Available returns the bytes that this process may still use before the
// system swaps, reclaims what others need, or kills: the machine's available
// memory, or less where a control group has a limit (its limit, minus its
// usage, plus the file cache in it that can be dropped). It is 0 when nothing
// is left and also when nothing is known.
func Available() int64 { return now().available }

// Limit returns the bytes that this process could ever use: the machine's
// memory or the smallest limit of its control groups. It is 0 when unknown.
func Limit() int64 { return now().limit }

// memory is one reading, in bytes; zero where unknown.
type memory struct {
	limit, available int64
}
