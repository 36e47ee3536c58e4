package tier

import (
	"context"
	"math"
)

// reclaim frees device memory for others who use the pool: what is clean at once,
// and what is dirty when it is written back. The store makes do with less from then
// on, and grows again as its own moves find memory.
func (s *Store) reclaim(ctx context.Context, need int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var freed int64
	patience := s.moves + turns*int64(len(s.arrays)+1)
	for freed < need && !s.closed && s.moves <= patience {
		before := s.deviceUsed
		s.listVictims(2 * (need - freed))
		s.pick(need-freed, 0, math.Inf(1), takeAny)
		freed += before - s.deviceUsed
		if freed >= need || s.cleaning == 0 && (s.files == nil || s.files.writes == 0) {
			break
		}
		if err := s.await(ctx); err != nil {
			break // the allocation says why it failed
		}
	}
	if freed > 0 {
		s.limit = min(s.limit, s.deviceUsed)
		s.counts.ReclaimedBytes += freed
	}
	return freed, nil
}

// await waits until something changed: a move ended, or a lease. s.mu is released
// meanwhile.
func (s *Store) await(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tellChanged ends what await waits for. s.mu is held.
func (s *Store) tellChanged() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
