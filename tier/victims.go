package tier

import (
	"cmp"
	"math"
	"slices"
)

// worth says how much an array on the device is worth keeping: what bringing it
// back would cost for each byte, over the distance to its next use. So of two that
// cost the same, the one goes that is needed later, which is the best that can be
// done (Belady, "A study of replacement algorithms for a virtual-storage computer",
// 1966) as far as the distances are right.
func (s *Store) worth(a *Array) float64 {
	cost := 1.0
	if !a.clean() {
		cost += dirtyCost
	}
	return cost / s.next(a)
}

// dirtyCost is what writing a byte back costs beside bringing one in: the other
// direction of the link is mostly idle.
const dirtyCost = 0.25

// next is the distance in bytes to the next use of an array, as far as is known.
func (s *Store) next(a *Array) float64 {
	switch {
	case a.cold:
		return math.Inf(1)
	case a.order != nil:
		return max(a.order.next(a), 1)
	}
	return a.reuse.Next(&s.clock)
}

// victims are the arrays that leave the device next, in order: a list that is made
// for some of them at once, since every array is looked at for it.
type victims struct {
	list []candidate
}

type candidate struct {
	a     *Array
	worth float64
	last  int64 // a.reuse.Last(): when it changed, the array was used since
}

func (v *victims) forget() { v.list = nil }

// listVictims lists the least worthy arrays, so many bytes of them.
func (s *Store) listVictims(bytes int64) {
	list := s.victims.list[:0]
	for a := range s.arrays {
		if a.resident() && a.stuck == nil {
			list = append(list, candidate{a, s.worth(a), a.reuse.Last()})
		}
	}
	slices.SortFunc(list, compare)
	s.victims.list = cut(list, bytes)
}

// offer puts an array that was just used into the list, where it belongs.
func (s *Store) offer(a *Array) {
	list := s.victims.list
	if a.stuck != nil || len(list) == 0 {
		return
	}
	if c := (candidate{a, s.worth(a), a.reuse.Last()}); compare(c, list[len(list)-1]) < 0 {
		s.victims.list = slices.Insert(list, 0, c)
	}
}

// sortVictims puts the list in order again: what an array is worth changes as its
// next use comes closer. Of those that are left, the list keeps so many bytes.
func (s *Store) sortVictims(bytes int64) {
	list := s.victims.list[:0]
	for _, c := range s.victims.list {
		if c.a.resident() && !c.a.freed && c.a.stuck == nil && c.a.reuse.Last() == c.last {
			c.worth = s.worth(c.a)
			list = append(list, c)
		}
	}
	slices.SortFunc(list, compare)
	// Several users of one array may have offered it.
	list = slices.CompactFunc(list, func(x, y candidate) bool { return x.a == y.a })
	s.victims.list = cut(list, bytes)
}

// cut keeps so many bytes of a list, and what is in use between them.
func cut(list []candidate, bytes int64) []candidate {
	for i, c := range list {
		if c.a.pins > 0 {
			continue
		}
		if bytes -= c.a.size; bytes <= 0 {
			return list[:i+1]
		}
	}
	return list
}

func compare(x, y candidate) int {
	return cmp.Or(cmp.Compare(x.worth, y.worth), cmp.Compare(x.last, y.last), cmp.Compare(x.a.id, y.a.id))
}

// makeRoom frees device memory until n bytes fit, and reports whether they do. What
// is dirty is written back first: then makeRoom starts that and reports false. For
// an array that is only brought in ahead, nothing leaves that is needed sooner.
func (s *Store) makeRoom(n int64, ahead *Array) bool {
	over := s.over(n)
	if over <= 0 {
		return true
	}
	most := math.Inf(1)
	if ahead != nil {
		most = 1 / s.next(ahead)
	}
	window := min(s.window(), mostAhead*n)
	need := mayWait
	if ahead == nil {
		need = spareWarm
	}
	enough := s.pick(over, window, most, need)
	if !enough { // the list is used up, or what is left of it was used since
		s.listVictims(over + 4*window)
		enough = s.pick(s.over(n), window, most, need)
	}
	if !enough && ahead == nil {
		s.pick(s.over(n), window, most, takeAny)
	}
	if s.starved != nil {
		return false
	}
	if ahead == nil && (s.inflight == 0 || s.cleaning == 0 && !slices.ContainsFunc(s.victims.list, func(c candidate) bool { return c.a.pins == 0 })) {
		return s.deviceUsed+n <= s.options.DeviceBytes // the pool may have some again
	}
	return s.deviceUsed+n <= s.limit
}

// over is how much has to leave the device for n bytes.
func (s *Store) over(n int64) int64 {
	over := s.deviceUsed + n - s.limit
	if s.starved != nil {
		return max(over, n) // what the pool has left is in pieces, or belongs to others
	}
	return over
}

// mostAhead is how many arrays of one size, at most, are written back beforehand.
const mostAhead = 64

// alike is up to which ratio of their worths it makes no difference which array leaves.
const alike = 2

// need says how much somebody wants room.
type need int

const (
	mayWait   need = iota // it waits for arrays in use, and warm ones, if others are worth much more
	spareWarm             // it takes others instead
	takeAny               // it takes warm ones too
)

// warm reports whether the work with an array that was used just now may still be
// running, or even be ahead: whoever got its memory would wait for that. A program
// that queues many uses would otherwise have each copy wait for the computing before
// it, for the array used last is often the one needed last.
func (s *Store) warm(a *Array, window int64) bool {
	return s.clock.Now-a.reuse.Last()-a.bytes < window && !a.marks.passed()
}

// pick goes through the list of victims: over bytes leave, or will once they are
// written back, and those behind, up to a window, are written back beforehand. It
// reports whether that is all that was asked for.
func (s *Store) pick(over, window int64, most float64, need need) bool {
	s.sortVictims(over + 4*window)
	kept := s.victims.list[:0]
	var found, waits int64 // bytes that will leave, and that will if we wait
	var least float64      // worth of the first to wait for
	next := 0
	wait := func(c candidate) {
		kept = append(kept, c)
		if need != mayWait {
			return
		}
		if waits == 0 {
			least = c.worth
		}
		waits += c.a.size
	}
	for i, c := range s.victims.list {
		if waits > 0 && c.worth > alike*least {
			found, waits = found+waits, 0 // better to wait than to take this one
		}
		if found >= over+window {
			break
		}
		next = i + 1
		a := c.a
		if c.worth >= most {
			kept = append(kept, c)
			found = over + window // nothing behind is worth less
			break
		}
		switch {
		case a.pins > 0:
			wait(c)
			continue
		case a.dev.cleaning, a.dev.state == launched && !a.clean():
		case a.clean():
			if found < over {
				if need != takeAny && s.warm(a, window) {
					wait(c)
					continue
				}
				over -= a.size
				s.drop(a)
				s.counts.Evictions++
				continue
			}
		case s.cleaning < over+window:
			if !s.writeBack(a, found < over) {
				kept = append(kept, c)
				continue
			}
		}
		found += a.size
		kept = append(kept, c)
	}
	s.victims.list = append(kept, s.victims.list[next:]...)
	return over <= 0 || found+waits >= over
}

// memoryVictim chooses an array on the device that can give its place in host memory
// up at once, the one that stays there longest: what leaves soon needs its place.
// nil: there is none, or all of them together would not make n bytes of room. Then
// they would become dirty for nothing, and be written back again and again.
func (s *Store) memoryVictim(n int64) *Array {
	room := map[*memoryPool]int64{}
	for a := range s.arrays {
		if a.mayVacate() {
			room[a.mem.pool] += a.size
		}
	}
	var best *Array
	for a := range s.arrays {
		if p := a.mem.pool; a.mayVacate() && p.room.Left()+room[p] >= n && (best == nil || s.next(a) < s.next(best)) {
			best = a
		}
	}
	return best
}

// mayVacate reports whether an array on the device can give its place below up.
func (a *Array) mayVacate() bool { return a.mem.held() && a.mem.busy == 0 && a.onDevice() }

// onDevice reports whether the device surely has the content, or will, for somebody
// who holds the array overwrites it.
func (a *Array) onDevice() bool {
	return a.dev.state == ready && (!a.dev.fresh || a.lent > 0)
}

// wanted reports whether somebody waits for an array that is not on the device.
func (a *Array) wanted() bool { return a.users > 0 && a.dev.state == absent }

// sooner reports whether an array is needed before another.
func (s *Store) sooner(a, b *Array) bool {
	if a.wanted() != b.wanted() {
		return a.wanted()
	}
	return s.next(a) < s.next(b)
}
