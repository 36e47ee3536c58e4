package tier

import (
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/tier/internal/forecast"
)

// Order is a sequence of uses that a program announced. The store follows the uses
// as they come: it brings in ahead what comes next, and what is needed last leaves
// first.
type Order struct {
	s          *Store
	order      *forecast.Order[*Array]
	sequential bool
	once       bool   // it ends when its last use came
	blank      []bool // uses that overwrite, whose content is not wanted; nil: none
	step       int64  // bytes of arrays that are in use at once, at most
	ahead      int64  // every use before this number is on the device, or on its way
}

// Recording notes the uses of a store in order, until Stop.
type Recording struct {
	s      *Store
	arrays []*Array
}

// Record begins to note the uses of arrays.
func (s *Store) Record() *Recording {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Recording{s: s}
	s.taping = append(s.taping, r)
	return r
}

// Stop ends the recording and returns the arrays in the order of their uses, one
// for each use.
func (r *Recording) Stop() []*Array {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.taping = slices.DeleteFunc(r.s.taping, func(x *Recording) bool { return x == r })
	return r.arrays
}

// Sequential announces that arrays are used in this order, again and again: a
// sweep over data larger than the device. Each array that another order names
// leaves that one.
func (s *Store) Sequential(arrays ...*Array) *Order {
	return s.announce(arrays, func(o *Order) { o.sequential = true })
}

// Replay announces the uses of one round, such as a training step that was
// recorded, of which every one is like it. An array may come several times. What
// leaves the device is then what an optimal schedule would choose; see
// docs/tier.md. Uses that differ from the order are served all the same.
func (s *Store) Replay(arrays []*Array) *Order { return s.announce(arrays, func(*Order) {}) }

// WillNeed announces that arrays are used once soon, in this order.
func (s *Store) WillNeed(arrays ...*Array) {
	s.announce(arrays, func(o *Order) { o.once = true })
}

// DontNeed says that arrays are not used soon: they leave the device first. Their
// content stays.
func (s *Store) DontNeed(arrays ...*Array) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range arrays {
		if a != nil && a.s == s && !a.freed {
			a.cold = true
		}
	}
	s.victims.forget()
}

func (s *Store) announce(arrays []*Array, set func(*Order)) *Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrays = slices.DeleteFunc(slices.Clone(arrays), func(a *Array) bool { return a == nil || a.s != s || a.freed })
	o := &Order{s: s, step: s.largest}
	set(o)
	o.order = forecast.NewOrder(arrays, func(a *Array) int64 { return a.bytes }, !o.once)
	for _, a := range arrays {
		if a.order != nil && a.order != o {
			a.order.remove(a)
		}
		a.order, a.cold, a.kept = o, false, false
	}
	s.keep(o, arrays)
	if len(arrays) > 0 {
		s.orders = append(s.orders, o)
	}
	s.victims.forget()
	s.pump()
	return o
}

// Forget withdraws the announcement.
func (o *Order) Forget() {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for a := range o.order.Items {
		if a.order == o {
			a.order, a.kept = nil, false
		}
	}
	o.end()
	o.s.victims.forget()
}

// keep chooses arrays of a cyclic order that stay on the device: of those that come
// least often in a round, as many as fit beside the others, and evenly spaced. Which
// of them stay makes no difference to how much has to move. But if they followed each
// other, the link would have nothing to do while they are used, and the device would
// wait while it carries the rest.
func (s *Store) keep(o *Order, arrays []*Array) {
	if o.once {
		return
	}
	uses := map[*Array]int{}
	for _, a := range arrays {
		uses[a]++
	}
	fewest := len(arrays)
	for _, n := range uses {
		fewest = min(fewest, n)
	}
	room, rare := s.options.DeviceBytes-2*s.window()-o.step, int64(0)
	for a := range s.arrays {
		switch {
		case uses[a] == fewest:
			rare += a.size
		case uses[a] > 0:
			room -= a.size
		case a.order == nil:
			room -= min(a.size, s.options.DeviceBytes/keepShare) // it may be used beside these
		}
	}
	if room < s.options.DeviceBytes/2 || rare <= room {
		return
	}
	share, sum := float64(room)/float64(rare), 0.0
	for _, a := range arrays {
		if uses[a] != fewest {
			continue
		}
		uses[a] = 0 // only once
		before := math.Floor(sum / float64(s.largest))
		if sum += share * float64(a.size); math.Floor(sum/float64(s.largest)) > before {
			a.kept = true
		}
	}
}

// remove takes an array out. s.mu is held for all that follows.
func (o *Order) remove(a *Array) {
	o.order.Remove(a)
	a.order, a.kept = nil, false
	if o.order.Left() == 0 {
		o.end()
	}
}

// end takes the order out of the store.
func (o *Order) end() {
	o.s.orders = slices.DeleteFunc(o.s.orders, func(x *Order) bool { return x == o })
}

// used follows a use.
func (o *Order) used(a *Array) {
	if !o.order.Use(a) {
		o.s.counts.Strays++
	}
	if c := o.order.Cursor(); o.ahead < c || o.ahead > c+int64(o.order.Len()) {
		o.ahead = c
	}
	if o.once {
		o.remove(a)
	}
}

// left notes that an array is not on the device any more.
func (o *Order) left(a *Array) {
	if at, ok := o.order.Find(a); ok {
		o.ahead = min(o.ahead, at)
	}
}

// next is the distance to the next use. That of an array that is to stay counts as
// shorter.
func (o *Order) next(a *Array) float64 {
	if a.kept {
		return o.order.Next(a) / keepShare
	}
	return o.order.Next(a)
}

// keepShare is by how much.
const keepShare = 16

// overwrites reports whether the use of a number wants no content.
func (o *Order) overwrites(number int64) bool {
	return len(o.blank) == o.order.Len() && o.blank[number%int64(len(o.blank))]
}

// prefetch brings in what the orders say comes next, as far as the window goes. Where a
// program runs ahead of the device, and a window of copies that it asked for is under way
// already, half of one is enough to find room in time, and leaves more for what stays.
func (s *Store) prefetch() {
	window := s.window()
	if s.filling-s.ahead >= window {
		window /= 2
	}
	for _, o := range slices.Clone(s.orders) {
		for s.ahead < window {
			a, ok := o.order.At(o.ahead)
			if !ok || o.ahead >= o.order.Cursor()+int64(o.order.Len()) {
				break
			}
			if a.order == o && !o.overwrites(o.ahead) && a.dev.state == absent && a.version > 0 && !a.freed && !a.cold && a.stuck == nil {
				if s.ahead > 0 && s.ahead+a.size > window || !s.makeRoom(a.size, a) {
					break
				}
				s.ahead += a.size
				s.counts.Prefetches++
				s.reserve(a, false)
				a.dev.ahead = true
			}
			o.ahead++
		}
	}
}
