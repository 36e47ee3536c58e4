package tier

import (
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// pump starts every move that can start: first what uses wait for, in the order of
// the uses, then what will be used soon. It is called whenever something changed:
// a use came or went, a move ended. s.mu is held.
func (s *Store) pump() {
	s.tellChanged()
	if s.closed {
		return
	}
	for s.admit() {
	}
	blocked := false
	for _, u := range slices.Clone(s.active) {
		for _, x := range u.accesses {
			if !s.want(x) {
				blocked = true
			}
		}
	}
	for _, a := range slices.Clone(s.bringing) {
		s.bringOn(a)
	}
	s.wake()
	if len(s.active) > 0 && (s.inflight == 0 || blocked && s.moves > s.active[0].patience) && s.giveUp() {
		s.pump() // that may help the others
		return
	}
	if !blocked && len(s.waiting) == 0 {
		s.prefetch()
	}
}

// turns is how often each array may move, on average, until a use that still has no
// room fails. Memory in pieces could otherwise keep arrays changing places for ever.
const turns = 4

// admit lets the first use that waits have its arrays, if the device budget has
// room for them beside those of the others: so whoever is admitted can go on.
func (s *Store) admit() bool {
	if len(s.waiting) == 0 {
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
	u.patience = s.moves + turns*int64(len(s.arrays)+1)
	s.pin(u)
	return true
}

// want starts what brings an array to the device for a use. It reports false while
// nothing could be started for lack of room.
func (s *Store) want(x Access) bool {
	a := x.array
	switch a.dev.state {
	case ready:
		if a.dev.fresh && a.lent == 0 && x.mode != overwrite {
			s.drop(a) // it was made for somebody who would overwrite it
			return s.want(x)
		}
		return true
	case absent:
		if !s.makeRoom(a.size, nil) {
			s.callOff()
			return false
		}
		s.reserve(a, x.mode == overwrite)
	}
	return true
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
		if !slices.ContainsFunc(u.accesses, func(x Access) bool { return !x.usable() }) {
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
		return
	}
	for _, u := range slices.Clone(s.active) {
		if slices.ContainsFunc(u.accesses, func(x Access) bool { return x.array == a }) {
			s.finish(u, err)
		}
	}
}

// giveUp ends the first use that waits, when nothing is under way that could make
// room, unless somebody holds arrays and may release them. It reports whether it did.
func (s *Store) giveUp() bool {
	if s.lentAny() {
		return false
	}
	u := s.active[0]
	cause := errors.Join(s.stuck, s.starved)
	s.stuck, s.starved = nil, nil
	for a := range s.arrays {
		a.stuck = nil
	}
	err := s.noRoom("the use", u.bytes, s.options.DeviceBytes-s.pinned, cause)
	s.limit = s.options.DeviceBytes
	if s.files != nil {
		s.files.refused = nil
	}
	for _, p := range s.memory {
		p.limit = p.budget
	}
	s.finish(u, err)
	s.victims.forget()
	return true
}

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
	a.dev = deviceCopy{}
}

// bringOn takes the next step of bringing an array whose memory is set aside.
func (s *Store) bringOn(a *Array) {
	if a.dev.state != reserved {
		return
	}
	m := &move{a: a, version: a.version, zero: !a.dev.fresh && a.version == 0}
	if !a.dev.fresh && a.version > 0 {
		if !a.inMemory() {
			if a.inFile() {
				s.fetch(a)
			}
			return
		}
		a.mem.busy++
		m.from = a.mem.buf.Bytes()
		s.counts.Fills++
		s.counts.FilledBytes += a.bytes
	}
	s.bringing = slices.DeleteFunc(s.bringing, func(x *Array) bool { return x == a })
	a.dev.state, a.dev.fill = filling, m
	s.in.put(m)
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
	if !a.mem.held && !s.place(a) && (!push || !s.makePlace(a)) {
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
		if !s.memoryRoom(a.bytes) {
			if s.files == nil || s.files.refused != nil {
				s.promote()
			}
			return false
		}
	}
	return true
}

// promote moves an array from host memory to the device, if that has room that
// nobody wants: host memory is full.
func (s *Store) promote() {
	if s.promoted != nil && s.promoted.dev.state != absent && s.promoted.dev.state != ready {
		return // it is on its way
	}
	var best *Array
	for a := range s.arrays {
		if a.dev.state == absent && a.users == 0 && a.inMemory() && a.mem.busy == 0 && s.deviceUsed+a.size <= s.limit &&
			(best == nil || s.next(a) < s.next(best)) {
			best = a
		}
	}
	if best != nil {
		s.promoted = best
		s.reserve(best, false)
	}
}
