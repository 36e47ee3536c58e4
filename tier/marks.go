package tier

import (
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// mark is an event behind the work of one Use, shared by its arrays.
type mark struct {
	event  device.Event
	stream device.Stream
	refs   int
}

// marks are what later work with an array has to wait for: the newest write, and
// the reads since. Of each stream the newest mark stands for those before.
type marks struct {
	write *mark
	reads []*mark
}

// add notes a mark behind work that read, or wrote. Writing comes after all before
// it, so it replaces them. s.mu is held for all methods.
func (m *marks) add(s *Store, k *mark, write bool) {
	k.refs++
	if write {
		m.clear(s)
		m.write = k
		return
	}
	for i, old := range m.reads {
		if old.stream == k.stream {
			m.reads[i] = k
			s.unref(old)
			return
		}
	}
	m.reads = append(slices.DeleteFunc(m.reads, func(old *mark) bool { return s.letGo(old) }), k)
}

// letGo lets go of a mark if the work before it is over, and reports whether it is: a
// program that reads on a new stream each time would leave one of each else.
func (s *Store) letGo(k *mark) bool {
	done, _ := k.event.Done()
	if done {
		s.unref(k)
	}
	return done
}

// clear forgets all marks.
func (m *marks) clear(s *Store) {
	s.unref(m.write)
	for _, k := range m.reads {
		s.unref(k)
	}
	m.write, m.reads = nil, m.reads[:0]
}

// passed reports whether the work is over.
func (m *marks) passed() bool {
	for _, k := range append(m.reads[:len(m.reads):len(m.reads)], m.write) {
		if k != nil {
			if done, _ := k.event.Done(); !done {
				return false
			}
		}
	}
	return true
}

// wait has stream wait for the newest write, and before a write for the reads too.
func (m *marks) wait(stream device.Stream, write bool) error {
	if m.write != nil && m.write.stream != stream {
		if err := stream.Wait(m.write.event); err != nil {
			return err
		}
	}
	if !write {
		return nil
	}
	for _, k := range m.reads {
		if k.stream != stream {
			if err := stream.Wait(k.event); err != nil {
				return err
			}
		}
	}
	return nil
}

// unref gives the event of a mark back when nobody needs it any more.
func (s *Store) unref(k *mark) {
	if k == nil {
		return
	}
	if k.refs--; k.refs == 0 {
		s.events.put(k.event)
	}
}

// events are events to record again. Whoever waits for one on a stream has queued
// the wait before the event comes back here.
type events struct {
	dev  device.Device
	idle []device.Event
}

func (e *events) get() (device.Event, error) {
	if n := len(e.idle); n > 0 {
		ev := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return ev, nil
	}
	return e.dev.NewEvent(device.EventNoTiming | device.EventBlockingSync)
}

func (e *events) put(ev device.Event) { e.idle = append(e.idle, ev) }

func (e *events) close() {
	for _, ev := range e.idle {
		ev.Close()
	}
	e.idle = nil
}
