package staging

import (
	"slices"

	"github.com/pinion-gpu/pinion/internal/linger"
	"github.com/pinion-gpu/pinion/internal/numa"
)

// help takes chunks until the stager closes.
func (s *Stager) help() {
	// Near the device's root port the link is faster. Where that is refused, or
	// there is one node, any processor does.
	leave, _ := numa.Enter(s.options.Device.Info().NUMANode)
	defer leave()
	for {
		if s.helpShares() {
			s.linger()
			continue
		}
		r, ok := s.join()
		if !ok {
			return
		}
		if r == nil {
			s.linger()
			continue
		}
		for {
			t, offset, n := s.take()
			if t != nil {
				r.launch(s, t, offset, n)
			} else if r.flying > 0 {
				r.land(s)
			} else {
				break
			}
		}
		s.release(r)
		s.linger()
	}
}

// linger keeps a helper awake for a little while after its work: waking it
// from sleep takes as long as copying a MiB, and copies come in rows.
func (s *Stager) linger() {
	s.awake.Add(1)
	defer s.awake.Add(-1)
	linger.Until(func() bool { return s.waiting.Load() > 0 || s.sharing.Load() > 0 })
}

// join waits for chunks and a ring to take them with, or for a share: then there
// is no ring. Nor is there one when a helper wakes and comes too late: the next
// copy may follow soon. It reports false when the helper can end.
func (s *Stager) join() (r *ring, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for woken := false; ; woken = true {
		if s.unhelped() {
			return nil, true
		}
		if s.room() {
			if r := s.freeRing(shareMost); r != nil {
				return r, true
			}
		}
		if s.stopped {
			return nil, false
		}
		if woken {
			return nil, true
		}
		s.work.Wait()
	}
}

// room reports whether the tasks want more copiers than there are: one more is
// not always faster. The caller holds mu.
func (s *Stager) room() bool {
	busy := s.made - len(s.rings)
	for _, t := range s.tasks {
		if busy -= int(t.copiers); busy < 0 {
			return true
		}
	}
	return false
}

// freeRing takes a ring that nobody uses for a copy of n bytes, or nil. It is the one
// that was not used for the longest time, whose slots are in no processor's cache any
// more: the device writes to memory that caches hold at half the speed. (With the ring
// used last, 4 MiB came to the host at 32 GB/s, and at 40 like this, on an H200 machine.)
// For few bytes, the processor's own access counts: they take the ring used last. The
// caller holds mu.
func (s *Stager) freeRing(n int64) *ring {
	if len(s.rings) == 0 {
		return nil
	}
	i := 0
	if n < shareLeast {
		i = len(s.rings) - 1
	}
	r := s.rings[i]
	s.rings = slices.Delete(s.rings, i, i+1)
	return r
}

// release lands what is in flight in r, if it is not nil, and puts it back.
func (s *Stager) release(r *ring) {
	if r == nil {
		return
	}
	for r.flying > 0 {
		r.land(s)
	}
	s.mu.Lock()
	s.rings = append(s.rings, r)
	waiting := len(s.tasks) > 0 // perhaps for this ring
	s.mu.Unlock()
	if waiting {
		s.work.Signal()
	}
}
