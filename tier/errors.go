package tier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Errors that callers can tell apart with errors.Is. Beside them there are those
// of packages device, pinned and vram.
var (
	// ErrClosed: the store was closed.
	ErrClosed = fmt.Errorf("store %w", errs.ErrClosed)

	// ErrFreed: the array was freed.
	ErrFreed = errors.New("array is freed")

	// ErrInUse: the array is in use: it has one writer, or readers.
	ErrInUse = errors.New("array is in use")

	// ErrBudget: one Use asks for more than the device budget.
	ErrBudget = errors.New("more than the device budget")

	// ErrNoRoom: the tiers together have no room for it. It comes as a
	// [*RoomError].
	ErrNoRoom = errors.New("no room in any tier")

	// ErrLost: work wrote to an array whose content had not come, for the copy to
	// the device failed after it was queued. The array has the content that it had
	// before. The next Use says so, once.
	ErrLost = errors.New("the last write was lost")

	// ErrDamaged: bytes that came back from a file are not those that went
	// there.
	ErrDamaged = errs.ErrDamaged
)

// Level is the room of one tier.
type Level struct {
	Name   string // "device", "host", "node 2", "file"
	Budget int64  // bytes
	Used   int64  // bytes, of copies and of moves under way
}

// Holder is an array that takes room.
type Holder struct {
	Name  string
	Bytes int64
	InUse bool // it is held by a Use, and cannot move
}

// RoomError says what would be needed, and what holds the rest. errors.Is finds
// ErrNoRoom in it, and the reason a move failed for, if that is why.
type RoomError struct {
	What    string   // what needs room
	Needs   int64    // bytes
	Free    int64    // bytes that are left for it, in all tiers together
	Levels  []Level  // every tier
	Holders []Holder // the largest arrays
	Leases  int      // that hold device memory, when a use waited in vain
	Waiting int      // uses that waited then, this one among them
	Others  int64    // bytes that others had of the pool then
	Cause   error    // why moves failed, or the wait ended; nil: there is no room
}

// Error has all figures in one line.
func (e *RoomError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tier: %v: %s needs %s, %s left", ErrNoRoom, e.What, units.Bytes(e.Needs), units.Bytes(max(e.Free, 0)))
	for i, l := range e.Levels {
		fmt.Fprintf(&b, "%s %s %s of %s used", []string{",", ":"}[btoi(i == 0)], l.Name, units.Bytes(l.Used), units.Bytes(l.Budget))
	}
	for i, h := range e.Holders {
		fmt.Fprintf(&b, "%s %s %s", []string{",", "; largest:"}[btoi(i == 0)], h.Name, units.Bytes(h.Bytes))
		if h.InUse {
			b.WriteString(" (in use)")
		}
	}
	if e.Waiting > 0 {
		fmt.Fprintf(&b, "; %s waited, %s held", units.Count(e.Waiting, "use"), units.Count(e.Leases, "lease"))
		if e.Others > 0 {
			fmt.Fprintf(&b, ", others had %s of the pool", units.Bytes(e.Others))
		} else if e.Leases > 0 {
			b.WriteString(": only a release makes room (to hold several arrays, name them in one Use)")
		}
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Unwrap returns ErrNoRoom and the cause.
func (e *RoomError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrNoRoom}
	}
	return []error{ErrNoRoom, e.Cause}
}

// noRoom explains that something has no room. s.mu is held.
func (s *Store) noRoom(what string, needs, free int64, cause error) *RoomError {
	const most = 5
	e := &RoomError{What: what, Needs: needs, Free: free, Levels: s.levels(), Cause: cause}
	for a := range s.arrays {
		e.Holders = append(e.Holders, Holder{a.String(), a.bytes, a.pins > 0})
	}
	slices.SortFunc(e.Holders, func(x, y Holder) int {
		if x.Bytes != y.Bytes {
			return int(min(max(y.Bytes-x.Bytes, -1), 1))
		}
		return strings.Compare(x.Name, y.Name)
	})
	e.Holders = e.Holders[:min(len(e.Holders), most)]
	return e
}

// inVain explains that a use waited for room until its context ended. s.mu is held.
func (s *Store) inVain(u *use, ended error) error {
	what, free := "the use", s.options.DeviceBytes-s.pinned
	if u.host {
		what, free = u.accesses[0].array.String()+" in host memory", s.memoryFree()
	}
	refused := u.refused
	if refused == nil && !u.host {
		refused = s.starved // the pool is not asked for each use that it has no memory for
	}
	e := s.noRoom(what, u.bytes, free, errors.Join(refused, ended))
	e.Waiting, e.Leases = len(s.waiting)+len(s.active), s.leases
	e.Others = s.pool.Stats().Requested.Current
	for a := range s.arrays {
		if a.dev.state >= launched {
			e.Others -= a.bytes
		}
	}
	e.Others = max(e.Others, 0)
	return e
}
