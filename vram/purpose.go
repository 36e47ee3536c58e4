package vram

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Purpose says what memory is for. Accounts, limits and reports are kept by
// purpose.
type Purpose uint8

// The purposes that memory can have. The zero value is Other.
const (
	Other Purpose = iota
	Weights
	Gradients
	Optimizer
	Activations
	Batch
	KVCache
	Workspace
	Staging
	purposes // how many there are
)

var purposeNames = [purposes]string{
	"other", "weights", "gradients", "optimizer", "activations", "batch", "kvcache", "workspace", "staging",
}

// String returns the name of p in lower case.
func (p Purpose) String() string {
	if p >= purposes {
		return fmt.Sprintf("Purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}

// ParsePurpose returns the purpose of that name.
func ParsePurpose(name string) (Purpose, bool) {
	for p, n := range purposeNames {
		if n == name {
			return Purpose(p), true
		}
	}
	return Other, false
}

// Purposes lists all purposes in order.
func Purposes() []Purpose {
	list := make([]Purpose, purposes)
	for i := range list {
		list[i] = Purpose(i)
	}
	return list
}

// limit bounds what a purpose may hold; 0: no limit.
type limit struct {
	soft, hard int64
	used       atomic.Int64
}

func (l *limit) set() bool { return l.soft > 0 || l.hard > 0 }

// take counts n more bytes, unless they exceed the hard limit.
func (l *limit) take(n int64) bool {
	for used := l.used.Load(); l.hard == 0 || used+n <= l.hard; used = l.used.Load() {
		if l.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
	return false
}

// charge counts size bytes against the limits of a purpose. Above the soft limit
// it calls the reclaimers; above the hard one it fails.
func (p *Pool) charge(ctx context.Context, l *limit, size, n int64, use Use) error {
	if l.over(size) {
		p.mu.Lock()
		list := slices.Clone(p.reclaimers)
		p.mu.Unlock()
		for _, r := range list {
			if _, err := r.call(ctx, size); err != nil {
				return fmt.Errorf("vram: %s of %v: reclaim: %w", units.Bytes(n), use.Purpose, err)
			}
			if !l.over(size) {
				break
			}
		}
	}
	if !l.take(size) {
		return p.outOfMemory(n, use, fmt.Errorf("%w: %v may have %s", ErrLimit, use.Purpose, units.Bytes(l.hard)))
	}
	return nil
}

// over reports whether n more bytes would exceed a limit.
func (l *limit) over(n int64) bool {
	used := l.used.Load() + n
	return l.soft > 0 && used > l.soft || l.hard > 0 && used > l.hard
}
