package tier

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// pump starts every move that can start: first what uses wait for, in the order of
// the uses, then what will be used soon. It is called whenever something changed:
// a use came or went, a move ended. s.mu is held.
func (s *Store) pump() {
	s.tellChanged()
	if s.closed {
		return
	}
	s.wake() // before others push out what came
	for s.admit() {
	}
	blocked := s.serve()
	if !blocked {
		for _, a := range slices.Clone(s.bringing) {
			s.bringOn(a)
		}
	}
	s.wake()
	switch {
	case len(s.active) > 0 && (s.inflight == 0 || blocked && s.turnsInVain()) && s.giveUp():
		s.pump() // that may help the others
	case !blocked && len(s.waiting) == 0:
		s.prefetch()
	}
}

// turnsInVain reports whether the first use in line still lacks room after every array
// has moved many times, on average, for nobody but it. Nothing known leads there; but if
// something does, an error is better than arrays that change places for ever.
func (s *Store) turnsInVain() bool {
	const turns = 64
	if s.first != s.active[0] {
		s.first, s.patience = s.active[0], s.moves+turns*int64(len(s.arrays)+1)
	}
	return s.moves > s.patience
}

// admit lets the first use that waits have its arrays, if the device budget has
// room for them beside those of the others: so whoever is admitted can go on. While
// the pool has less than the budget, it admits nobody beside those who are short.
func (s *Store) admit() bool {
	if len(s.waiting) == 0 || slices.ContainsFunc(s.active, func(u *use) bool { return u.short }) {
		return false
	}
	u := s.waiting[0]
	more := int64(0)
	for _, x := range u.accesses {
		if x.array.pins == 0 {
			more += x.array.size
		}
	}
	if s.pinned+more > s.options.DeviceBytes {
		return false
	}
	s.waiting = slices.Delete(s.waiting, 0, 1)
	s.active = append(s.active, u)
	s.pin(u)
	return true
}

// serve starts what brings the arrays of admitted uses, in their order, up to the first
// that lacks room: what leaves for that one is not for those behind it, who would else
// keep it waiting for ever. It reports whether there is one.
func (s *Store) serve() (blocked bool) {
	for _, u := range slices.Clone(s.active) {
		if !s.advance(u) {
			s.callOff()
			return true
		}
	}
	return false
}

// advance takes the next steps for a use. It reports false while it lacks room.
func (s *Store) advance(u *use) bool {
	if u.host {
		return s.wantHost(u.accesses[0])
	}
	// One after the other: room on the device that is set aside for an array which
	// cannot come yet is room that others lack on their way down.
	return !slices.ContainsFunc(u.accesses, func(x Access) bool { return !s.want(x) })
}

// want starts what brings an array to the device for a use. It reports false while that
// has to wait for room.
func (s *Store) want(x Access) bool {
	a := x.array
	if a.dev.state == ready && a.dev.fresh && a.lent == 0 && x.mode != overwrite {
		s.drop(a) // it was made for somebody who would overwrite it
	}
	if a.dev.state == absent {
		if !s.makeRoom(a.size, nil) {
			return false
		}
		s.reserve(a, x.mode == overwrite)
	}
	return s.bringOn(a)
}

// usable reports whether work with an array can be queued.
func (x Access) usable() bool {
	a := x.array
	switch a.dev.state {
	case launched, ready:
		// What is written must not be on its way down.
		return (x.mode == overwrite || !a.dev.fresh || a.lent > 0) && (x.mode == read || !a.dev.cleaning)
	}
	return false
}

// wake completes the uses whose arrays are all there.
func (s *Store) wake() {
	for _, u := range slices.Clone(s.active) {
		if u.host {
			s.wakeHost(u)
			continue
		}
		if !slices.ContainsFunc(u.accesses, func(x Access) bool { return !x.usable() }) {
			s.leases++
			for _, x := range u.accesses {
				x.array.lent++
			}
			s.finish(u, nil)
		}
	}
}

// failed ends the uses that wait for an array that cannot come. When only memory
// was short, they wait until something leaves the device, or pump gives up.
func (s *Store) failed(a *Array, err error) {
	if errors.Is(err, device.ErrOutOfMemory) {
		s.starved = err
		for _, u := range s.active {
			if !u.host && u.names(a) {
				u.short, u.refused = true, err
			}
		}
		return
	}
	if a.lost != nil {
		err = fmt.Errorf("tier: use %v: %w", a, a.lost)
	}
	for _, u := range slices.Clone(s.active) {
		if u.names(a) {
			a.lost = nil
			s.finish(u, err)
		}
	}
}

func (u *use) names(a *Array) bool {
	return slices.ContainsFunc(u.accesses, func(x Access) bool { return x.array == a })
}

// giveUp is called when nothing is under way that could make room for the first use.
// If somebody holds arrays, it waits for them. Else it does with less, or else the use
// fails. giveUp reports whether something changed.
func (s *Store) giveUp() bool {
	if s.leases > 0 {
		s.askAgain()
		return false
	}
	if s.bringContent() || s.retreat() {
		return true
	}
	u := s.active[0]
	cause := errors.Join(s.stuck, s.starved)
	s.stuck, s.starved = nil, nil
	for a := range s.arrays {
		a.stuck = nil
	}
	what, free := "the use", s.options.DeviceBytes-s.pinned
	if u.host {
		what, free = u.accesses[0].array.String()+" in host memory", s.memoryFree()
	}
	err := s.noRoom(what, u.bytes, free, cause)
	s.limit = s.options.DeviceBytes
	if s.files != nil {
		s.files.refused = nil
	}
	s.finish(u, err)
	s.victims.forget()
	return true
}

// bringContent has uses that overwrite arrays bring their content in after all. An
// array that is overwritten takes room twice until it is: its old content stays below.
// One that moves does not. It reports whether there is any such use.
func (s *Store) bringContent() (any bool) {
	for _, u := range s.active {
		for i, x := range u.accesses {
			if a := x.array; !u.host && x.mode == overwrite && a.version > 0 {
				u.accesses[i].mode = write
				any = true
				if a.dev.state == ready && a.dev.fresh && a.lent == 0 {
					s.drop(a)
				}
			}
		}
	}
	return any
}

// retreat takes the admission of all uses but the first back: arrays that came for them
// may leave for it. When the pool has less than the budget, each could else hold what
// the others lack. It reports whether there is any such use.
func (s *Store) retreat() bool {
	first, rest := s.active[0], []*use(nil)
	s.active = slices.DeleteFunc(s.active, func(u *use) bool {
		if u == first || u.host {
			return false
		}
		s.unpin(u)
		rest = append(rest, u)
		return true
	})
	s.waiting = append(rest, s.waiting...)
	first.short = true // so nobody is admitted beside it
	return len(rest) > 0
}

// askAgain asks the pool for memory again, when uses wait for it, as soon as somebody
// freed some: others who use the pool may.
func (s *Store) askAgain() {
	if s.starved == nil {
		return
	}
	by := &s.asking.device
	freed, others := s.pool.Freed(), (<-chan time.Time)(nil)
	var short *vram.OutOfMemoryError
	if errors.As(s.starved, &short) && short.OfPool() {
		by = &s.asking.pool
	} else {
		others = time.After(othersEvery)
	}
	if *by {
		return
	}
	*by = true
	s.askers.Go(func() {
		s.ask(by, true) // some may have come free before the pool was asked to tell
		select {
		case <-freed:
		case <-others:
		case <-s.ctx.Done():
			return
		}
		time.Sleep(together)
		s.ask(by, false)
	})
}

// ask asks the pool, and says whether the next answer is still awaited.
func (s *Store) ask(by *bool, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*by, s.starved = again, nil
	s.pump()
}

// othersEvery is how often the pool is asked when it is the device that has no more:
// nobody tells what other programs free.
const othersEvery = 100 * time.Millisecond

// together is for how long what is freed counts as freed at once: a pool that others use
// all the time is not asked each time.
const together = time.Millisecond

// callOff gives up what was to be brought in ahead and has not begun to move.
func (s *Store) callOff() {
	for _, a := range slices.Clone(s.bringing) {
		if a.pins == 0 && !a.file.reading {
			s.unreserve(a)
		}
	}
}

// reserve sets device memory aside for an array.
func (s *Store) reserve(a *Array, fresh bool) {
	a.dev = deviceCopy{state: reserved, version: a.version, fresh: fresh}
	s.deviceUsed += a.size
	s.coming += a.size
	s.devicePeak = max(s.devicePeak, s.deviceUsed)
	s.bringing = append(s.bringing, a)
	s.bringOn(a)
}

// unreserve gives up bringing an array.
func (s *Store) unreserve(a *Array) {
	if a.dev.state == reserved {
		s.bringing = slices.DeleteFunc(s.bringing, func(x *Array) bool { return x == a })
	}
	if a.dev.ahead {
		s.ahead -= a.size
	}
	s.deviceUsed -= a.size
	s.coming -= a.size
	a.dev = deviceCopy{}
}

// bringOn takes the next step of bringing an array whose memory is set aside. It
// reports false while that has to wait for room in host memory, or for other reads.
func (s *Store) bringOn(a *Array) bool {
	if a.dev.state != reserved {
		return true
	}
	m := &move{a: a, version: a.version, zero: !a.dev.fresh && a.version == 0}
	if !a.dev.fresh && a.version > 0 {
		if !a.inMemory() {
			return !a.inFile() || s.fetch(a)
		}
		a.mem.busy++
		m.from = a.mem.parts
		s.filling += a.size
		s.counts.Fills++
		s.counts.FilledBytes += a.bytes
	}
	s.bringing = slices.DeleteFunc(s.bringing, func(x *Array) bool { return x == a })
	a.dev.state, a.dev.fill = filling, m
	s.in.put(m)
	return true
}

// drop frees the device's copy of an array. The stream that fills what comes next
// waits for the work with it.
func (s *Store) drop(a *Array) {
	if err := a.marks.wait(s.in.stream, true); err != nil {
		// Without order on the device the host has to wait. This is the one
		// place where it does so under the lock: the stream is closed or broken.
		s.stuck = err
		_ = s.dev.Synchronize()
	}
	a.marks.clear(s)
	if a.dev.ahead {
		s.ahead -= a.size
		s.counts.WastedBytes += a.bytes
	}
	if err := a.dev.block.Free(); err != nil {
		s.stuck = err
	}
	s.deviceUsed -= a.size
	s.dropped += a.size
	s.starved = nil
	a.dev = deviceCopy{}
	if a.order != nil {
		a.order.left(a)
	}
}

// writeBack starts copying a dirty array to host memory. It reports false when
// there is no room. With push others give up their places for it, which makes them
// dirty.
func (s *Store) writeBack(a *Array, push bool) bool {
	if !a.mem.held() && !s.place(a) && (!push || !s.makePlace(a)) {
		return false
	}
	if a.mem.busy > 0 {
		return false
	}
	a.dev.cleaning = true
	s.cleaning += a.size
	a.mem.busy++
	a.mem.filling = true
	s.counts.WriteBacks++
	s.counts.WrittenBytes += a.bytes
	s.out.put(&move{a: a, version: a.version})
	return true
}

// makePlace sets host memory aside for an array, and pushes others out of it.
func (s *Store) makePlace(a *Array) bool {
	for !s.place(a) {
		if !s.memoryRoom(a.size) {
			return false
		}
	}
	return true
}

// takePlace does that for somebody who wants no room on the device: when nothing leaves
// host memory downwards, something goes up.
func (s *Store) takePlace(a *Array) bool {
	if a.mem.held() || s.makePlace(a) {
		return true
	}
	if s.files == nil || s.files.writes == 0 {
		s.promote()
	}
	return false
}

// promote moves an array from host memory to the device, if that has room: host memory
// is full.
func (s *Store) promote() {
	if s.starved != nil || s.promoted != nil && (s.promoted.dev.state == filling || s.promoted.dev.state == launched) {
		return // the newest one is on its way
	}
	limit := s.limit
	if s.inflight == 0 {
		limit = s.options.DeviceBytes // the pool may have some again
	}
	var best *Array
	for a := range s.arrays {
		if a.dev.state == absent && a.inMemory() && a.mem.busy == 0 && s.deviceUsed+a.size <= limit &&
			(best == nil || s.sooner(a, best)) {
			best = a
		}
	}
	if best != nil {
		s.promoted = best
		s.reserve(best, false)
	}
}
