package trace

import (
	"errors"
	"fmt"
	"math"
)

var (
	errAlreadyLive = errors.New("the block is already live")
	errNotLive     = errors.New("a free of a block that is not live")
)

// block is what is remembered of a live allocation.
type block struct {
	id     uint64
	bytes  int64
	stream int
}

// ledger checks that a trace makes sense, and numbers its allocations. It
// holds what is live and nothing else, so that a trace of any length can be
// read.
type ledger struct {
	live  map[uint64]block // by the number or address that the trace uses
	next  uint64           // above all IDs that were given out
	bytes int64            // live
}

// newLedger makes a ledger whose first ID is the given one, or above.
func newLedger(first uint64) ledger {
	return ledger{live: map[uint64]block{}, next: first}
}

// alloc enters an allocation under the key that its free will use, and returns
// its ID: the wanted one, unless that is, or may be, taken.
func (l *ledger) alloc(key, wanted uint64, bytes int64, stream int) (uint64, error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("an allocation of %d bytes", bytes)
	}
	if bytes > math.MaxInt64-l.bytes {
		return 0, fmt.Errorf("%d bytes and %d live ones exceed 64 bits", bytes, l.bytes)
	}
	if _, ok := l.live[key]; ok {
		return 0, errAlreadyLive
	}
	id := max(wanted, l.next)
	if id == math.MaxUint64 {
		return 0, fmt.Errorf("id %d is out of range", id)
	}
	l.next = id + 1
	l.live[key] = block{id, bytes, stream}
	l.bytes += bytes
	return id, nil
}

// free takes the allocation out.
func (l *ledger) free(key uint64) (block, error) {
	b, ok := l.live[key]
	if !ok {
		return block{}, errNotLive
	}
	delete(l.live, key)
	l.bytes -= b.bytes
	return b, nil
}

// checkFailed is the rule for an allocation that was not granted.
func checkFailed(bytes int64) error {
	if bytes <= 0 {
		return fmt.Errorf("a failed allocation of %d bytes", bytes)
	}
	return nil
}
