package tier

import (
	"context"
	"math"
)

// ownKey is in the context of the store's own allocations.
type ownKey struct{}

// turns is how often each array may move, on average, while somebody reclaims memory.
const turns = 4

// reclaim frees device memory for others who use the pool: what is clean at once,
// and what is dirty when it is written back. The store makes do with less from then
// on, and grows again as its own moves find memory.
func (s *Store) reclaim(ctx context.Context, need int64) (freed int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := ctx.Value(ownKey{}) == s
	limit := s.deviceUsed - need
	if !own {
		// What is set to come would take what leaves, and so would others who ask.
		s.callOff()
		s.owed += need
		defer func() { s.owed -= need }()
		limit = s.deviceUsed - s.coming - s.owed
		s.limit = max(min(s.limit, limit), 0)
	}
	dropped, patience := s.dropped, s.moves+turns*int64(len(s.arrays)+1)
	for s.deviceUsed > limit && !s.closed && s.moves <= patience {
		s.listVictims(2 * (s.deviceUsed - limit))
		s.pick(s.deviceUsed-limit, 0, math.Inf(1), takeAny)
		// The store's own allocation is under way itself.
		if s.deviceUsed <= limit || s.inflight == 0 || own && s.cleaning == 0 && (s.files == nil || s.files.writes == 0) {
			break
		}
		if s.await(ctx) != nil {
			break // the allocation says why it failed
		}
	}
	freed = s.dropped - dropped
	s.counts.ReclaimedBytes += freed
	switch {
	case own:
		s.limit = min(s.limit, s.deviceUsed)
	case s.deviceUsed > limit:
		s.limit = max(s.limit, min(s.deviceUsed-s.coming, s.options.DeviceBytes))
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
