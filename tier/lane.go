package tier

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/vram"
)

// move is one copy between the tiers that is under way.
type move struct {
	a       *Array
	version uint64     // of the content that moves
	mark    probe.Mark // on a timeline
	from    [][]byte   // host memory, for a fill; nil: zeros, or nothing
	zero    bool       // a fill of zeros
	event   device.Event
}

// lane is one direction of the link: a stream, a goroutine that puts moves on it,
// so that the next is queued before the last is done, and one that sees them end.
// Both live until the store is closed.
type lane struct {
	s      *Store
	row    probe.Row // of a timeline
	stream device.Stream
	launch func(*move) error
	land   func(*move, error)

	queue  []*move // guarded by Store.mu
	work   sync.Cond
	flight chan *move
	ended  sync.WaitGroup
}

// inFlight is how many moves of a lane are on its stream at most.
const inFlight = 64

func newLane(s *Store, name string, launch func(*move) error, land func(*move, error)) (*lane, error) {
	stream, err := s.dev.NewStream()
	if err != nil {
		return nil, err
	}
	device.Label(stream, "tier "+name)
	return &lane{s: s, row: s.row(name), stream: stream, launch: launch, land: land, work: sync.Cond{L: &s.mu}, flight: make(chan *move, inFlight)}, nil
}

func (l *lane) start() {
	l.ended.Go(l.launchAll)
	l.ended.Go(l.landAll)
}

// row is a row of a timeline for the store.
func (s *Store) row(name string) probe.Row { return probe.Row{Group: s.group, Name: name} }

// put hands a move over. s.mu is held.
func (l *lane) put(m *move) {
	l.s.inflight++
	l.s.moves++
	l.queue = append(l.queue, m)
	l.work.Signal()
}

func (l *lane) launchAll() {
	defer close(l.flight)
	for {
		l.s.mu.Lock()
		for len(l.queue) == 0 && !l.s.ended {
			l.work.Wait()
		}
		if len(l.queue) == 0 {
			l.s.mu.Unlock()
			return
		}
		m := l.queue[0]
		l.queue = l.queue[1:]
		l.s.mu.Unlock()
		m.mark = probe.Begin(l.row, m.a.name)
		if err := l.launch(m); err != nil {
			l.done(m, err)
			continue
		}
		l.flight <- m
	}
}

func (l *lane) landAll() {
	for m := range l.flight {
		err := m.event.Synchronize()
		if err != nil {
			// An error stays with the stream until somebody fetches it.
			err = errors.Join(err, l.stream.Synchronize())
		}
		l.done(m, err)
	}
}

// done ends a move.
func (l *lane) done(m *move, err error) {
	s := l.s
	m.mark.End(l.row, probe.Span{Name: m.a.name, Bytes: m.a.bytes})
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.event != nil {
		s.events.put(m.event)
		m.event = nil
	}
	s.inflight--
	l.land(m, err)
	s.settled(m.a)
}

// settled goes on after the end of a move of a. s.mu is held.
func (s *Store) settled(a *Array) {
	if a.freed {
		s.settle(a)
	}
	s.pump()
	if s.inflight == 0 {
		s.quiet.Broadcast()
	}
}

// moveEvent takes an event for a move.
func (s *Store) moveEvent(m *move) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.event, err = s.events.get()
	return err
}

// launchFill takes device memory for an array and queues the copy into it.
func (s *Store) launchFill(m *move) error {
	a := m.a
	if err := s.moveEvent(m); err != nil {
		return err
	}
	block, err := s.pool.Alloc(s.own, a.bytes, vram.Use{Stream: s.in.stream, Purpose: s.options.Purpose, Name: a.name})
	if err != nil {
		return err
	}
	switch {
	case m.from != nil:
		at := block.Ptr()
		for _, b := range m.from {
			err = errors.Join(err, s.in.stream.CopyH2D(at, b))
			at = at.Add(int64(len(b)))
		}
	case m.zero:
		err = s.in.stream.Memset(block.Ptr(), 0, a.bytes)
	}
	if err == nil {
		err = s.in.stream.Record(m.event)
	}
	if err != nil {
		return errors.Join(err, s.in.stream.Synchronize(), block.Free())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.dev.block, a.dev.filled, a.dev.state = block, m.event, launched
	s.coming -= a.size
	s.wake()
	return nil
}

// landFill ends a fill. s.mu is held.
func (s *Store) landFill(m *move, err error) {
	a := m.a
	if m.from != nil {
		a.mem.busy--
		s.filling -= a.size
	}
	if a.dev.fill != m {
		if err != nil { // it left again already
			s.stuck = err
		}
		return
	}
	a.dev.fill, a.dev.filled = nil, nil
	if err == nil {
		a.dev.state = ready
		s.forgetStale(a)
		s.limit = min(max(s.limit+a.bytes/recovery, s.deviceUsed-s.coming), s.options.DeviceBytes)
		if a.dev.fresh && a.users == 0 {
			s.drop(a) // whoever wanted to overwrite it went away
		}
		return
	}
	err = fmt.Errorf("tier: bring %v to the device: %w", a, err)
	inUse := a.lent > 0
	if a.version != m.version {
		// Somebody wrote to what never came. What was below still counts.
		a.lost = fmt.Errorf("%w: %w", ErrLost, err)
		a.version = m.version
	}
	a.dev.failed = err
	if a.dev.state == launched {
		a.dev.state = abandoned
		if !inUse {
			s.drop(a)
		}
	} else { // no memory, or nothing was queued
		s.unreserve(a)
		if errors.Is(err, device.ErrOutOfMemory) {
			s.limit = min(s.limit, s.deviceUsed)
		}
	}
	s.failed(a, err)
}

// recovery is the part of a fill by which the store goes back to its budget, after
// the pool was short.
const recovery = 16

// launchWriteBack takes host memory for an array, unless it has some, and queues
// the copy into it.
func (s *Store) launchWriteBack(m *move) error {
	a := m.a
	if err := s.moveEvent(m); err != nil {
		return err
	}
	if err := s.allocMemory(a); err != nil {
		return err
	}
	s.mu.Lock()
	err := a.marks.wait(s.out.stream, false)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	at := a.dev.block.Ptr()
	for _, b := range a.mem.parts {
		err = errors.Join(err, s.out.stream.CopyD2H(b, at))
		at = at.Add(int64(len(b)))
	}
	if err == nil {
		err = s.out.stream.Record(m.event)
	}
	if err != nil {
		return errors.Join(err, s.out.stream.Synchronize())
	}
	return nil
}

// landWriteBack ends a write-back. s.mu is held.
func (s *Store) landWriteBack(m *move, err error) {
	a := m.a
	a.dev.cleaning = false
	s.cleaning -= a.size
	a.mem.busy--
	a.mem.filling = false
	if err == nil {
		a.mem.version = m.version
		return
	}
	s.memoryFailed(a) // half of it may be there
	a.stuck = fmt.Errorf("tier: write back %v: %w", a, err)
	s.stuck = a.stuck
	for _, u := range slices.Clone(s.active) {
		if u.host && u.names(a) {
			s.finish(u, a.stuck)
		}
	}
}
