package tier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/internal/probe"
)

// Access is an array and what a Use does with it: see [Read], [Write] and
// [Overwrite].
type Access struct {
	array *Array
	mode  mode
}

type mode uint8

const (
	read mode = iota
	write
	overwrite
)

// Read is an access that leaves the content as it is.
func Read(a *Array) Access { return Access{a, read} }

// Write is an access that reads and changes the content. A later eviction has to
// write the array back.
func Write(a *Array) Access { return Access{a, write} }

// Overwrite is an access that writes every byte. What was there is not brought in:
// the memory has any content at first.
func Overwrite(a *Array) Access { return Access{a, overwrite} }

// use is one call of Use, or of ReadAt or WriteAt.
type use struct {
	accesses []Access
	host     bool  // the host wants the one array, in host memory
	bytes    int64 // of device memory
	short    bool  // the pool had no memory for it
	refused  error // what the pool said
	done     bool
	err      error
	ready    chan struct{} // closed when done
}

// Lease holds arrays on the device for the work that a program queues. Release it.
type Lease struct {
	s      *Store
	stream device.Stream
	use    *use
	ptrs   []device.Ptr
	over   bool // guarded by Store.mu
}

// Use makes arrays resident on the device and holds them there until the lease is
// released. Work that is queued on stream afterwards finds the content: Use may
// return while it is still on its way. It waits until there is room, in the order
// of the calls, and until ctx ends.
//
// An array has one writer or any number of readers, and a Use that comes between
// fails with ErrInUse at once, as does an array that is named twice. Work with an
// array is ordered with that of earlier uses, of whichever stream.
//
// Use fails with ErrBudget when its arrays exceed the device budget together, with a
// [*RoomError] when what is there cannot leave and nobody holds arrays whose release
// could help, with ErrFreed, and with ErrClosed.
// Nothing is held then. A program that holds a lease while it waits for another in
// the same goroutine may wait for itself: name all arrays in one Use. The store cannot
// know who will release a lease; when ctx or Options.WaitLimit ends the wait, a
// [*RoomError] says what is needed and who holds the rest.
func (s *Store) Use(ctx context.Context, stream device.Stream, accesses ...Access) (*Lease, error) {
	if stream == nil || len(accesses) == 0 {
		return nil, fmt.Errorf("tier: use: %w: %d arrays, stream %v", device.ErrArgument, len(accesses), stream)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u, err := s.newUse(accesses, false)
	if err != nil {
		return nil, err
	}
	s.note(accesses)
	s.waiting = append(s.waiting, u)
	if err := s.complete(ctx, u); err != nil {
		return nil, err
	}
	if s.ended {
		return nil, ErrClosed
	}
	return s.lend(stream, u)
}

// complete waits until a use is complete, or ctx ends, or there is no hope. s.mu is
// held, except while it waits.
func (s *Store) complete(ctx context.Context, u *use) error {
	s.pump()
	if u.done {
		return u.err
	}
	row := s.row("uses")
	mark := probe.Begin(row, "wait")
	began := time.Now()
	err := s.outwait(ctx, u)
	s.counts.Waits++
	waited := time.Since(began)
	s.counts.WaitTime += waited
	mark.End(row, probe.Span{Name: "wait", Start: began, End: began.Add(waited), Bytes: u.bytes})
	if u.done {
		return u.err
	}
	if slices.Contains(s.waiting, u) || u.short || s.inflight == 0 {
		err = s.inVain(u, err)
	}
	s.finish(u, err)
	s.pump()
	return err
}

// outwait waits until a use is done, or says why it has waited long enough. s.mu is
// held, except while it waits.
func (s *Store) outwait(ctx context.Context, u *use) error {
	for {
		var limit <-chan time.Time
		if s.options.WaitLimit > 0 {
			limit = time.After(s.options.WaitLimit)
		}
		moves, departures := s.moves, s.departures
		s.mu.Unlock()
		select {
		case <-u.ready:
		case <-ctx.Done():
		case <-limit:
		}
		s.mu.Lock()
		switch {
		case u.done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.inflight == 0 && s.moves == moves && s.departures == departures:
			return fmt.Errorf("nothing moved and no lease was released for %v: %w", s.options.WaitLimit, context.DeadlineExceeded)
		}
	}
}

// newUse checks a use and notes its users. s.mu is held.
func (s *Store) newUse(accesses []Access, host bool) (*use, error) {
	if s.closed {
		return nil, ErrClosed
	}
	u := &use{accesses: slices.Clone(accesses), host: host, ready: make(chan struct{})}
	for i, x := range accesses {
		a := x.array
		if a == nil || a.s != s {
			return nil, fmt.Errorf("tier: use: %w: array %d is not of this store", device.ErrArgument, i)
		}
		if err := a.usable(x.mode != read); err != nil {
			return nil, err
		}
		for _, y := range accesses[:i] {
			if y.array == a {
				return nil, fmt.Errorf("tier: use: %w: %v is named twice", ErrInUse, a)
			}
		}
		u.bytes += a.size
	}
	if u.bytes > s.options.DeviceBytes {
		return nil, fmt.Errorf("tier: use: %w: %d arrays have %d bytes together, the budget is %d",
			ErrBudget, len(accesses), u.bytes, s.options.DeviceBytes)
	}
	for _, x := range accesses {
		x.array.stuck = nil
		x.array.users++
		x.array.writing = x.mode != read
	}
	return u, nil
}

// usable reports whether another user may come. s.mu is held.
func (a *Array) usable(writes bool) error {
	switch {
	case a.freed:
		return fmt.Errorf("tier: use %v: %w", a, ErrFreed)
	case a.writing:
		return fmt.Errorf("tier: use %v: %w: it is being written", a, ErrInUse)
	case a.users > 0 && writes:
		return fmt.Errorf("tier: write %v: %w: it has readers", a, ErrInUse)
	case a.lost != nil:
		err := fmt.Errorf("tier: use %v: %w", a, a.lost)
		a.lost = nil
		return err
	}
	return nil
}

// note counts the accesses in what is known of the future. s.mu is held.
func (s *Store) note(accesses []Access) {
	for _, x := range accesses {
		a := x.array
		for _, r := range s.taping {
			r.arrays = append(r.arrays, a)
		}
		s.counts.Uses++
		s.counts.UsedBytes += a.bytes
		if a.dev.state == absent && x.mode != overwrite && a.version > 0 {
			s.counts.Misses++
			s.counts.MissedBytes += a.bytes
		}
		a.cold = false
		if a.order != nil {
			a.order.used(a)
		}
		a.reuse.Use(&s.clock)
		s.clock.Now += a.bytes
	}
}

// finish ends the wait of a use, with or without success. s.mu is held.
func (s *Store) finish(u *use, err error) {
	if i := slices.Index(s.waiting, u); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else if i := slices.Index(s.active, u); i >= 0 {
		s.active = slices.Delete(s.active, i, i+1)
		if err != nil && !u.host {
			s.unpin(u)
		}
	}
	if err != nil {
		s.leave(u)
	}
	u.done, u.err = true, err
	close(u.ready)
}

// pin holds the arrays of a use on the device. s.mu is held, as in unpin and leave.
func (s *Store) pin(u *use) {
	for _, x := range u.accesses {
		if x.array.pins++; x.array.pins == 1 {
			s.pinned += x.array.size
		}
	}
}

func (s *Store) unpin(u *use) {
	for _, x := range u.accesses {
		if x.array.pins--; x.array.pins == 0 {
			s.pinned -= x.array.size
		}
	}
}

// leave takes the use out of its arrays' users.
func (s *Store) leave(u *use) {
	s.departures++
	for _, x := range u.accesses {
		a := x.array
		if a.users--; x.mode != read {
			a.writing = false
		}
		if a.lent == 0 && (a.dev.state == abandoned || a.dev.state == ready && a.dev.fresh) {
			s.drop(a)
		}
	}
}

// end takes a complete use out of its arrays. s.mu is held.
func (s *Store) end(u *use) {
	s.leases--
	for _, x := range u.accesses {
		x.array.lent--
	}
	s.unpin(u)
	s.leave(u)
}

// lend orders the stream behind everything that concerns the arrays of a complete
// use. s.mu is held.
func (s *Store) lend(stream device.Stream, u *use) (*Lease, error) {
	l := &Lease{s: s, stream: stream, use: u}
	for _, x := range u.accesses {
		a := x.array
		err := error(nil)
		switch a.dev.state {
		case launched:
			err = stream.Wait(a.dev.filled)
		case abandoned:
			err = errors.Join(a.dev.failed, a.lost)
			a.lost = nil
		}
		if err == nil {
			err = a.marks.wait(stream, x.mode != read)
		}
		if err != nil {
			s.end(u)
			s.pump()
			return nil, fmt.Errorf("tier: use %v: %w", a, err)
		}
		if a.dev.ahead {
			a.dev.ahead = false
			s.ahead -= a.size
		}
		l.ptrs = append(l.ptrs, a.dev.block.Ptr())
	}
	for _, x := range u.accesses {
		s.offer(x.array)
	}
	s.pump()                                          // what was used makes room in the window
	if stack := callstack.IfWanted(1); stack != nil { // without Use
		s.watches++
		s.watched[l] = LeaseInfo{ID: s.watches, Name: u.accesses[0].array.name, Bytes: u.bytes, Stack: stack}
	}
	return l, nil
}

// Ptr is the address of an array of the lease, valid until Release, for work on the
// lease's stream; 0 for others.
func (l *Lease) Ptr(a *Array) device.Ptr {
	for i, x := range l.use.accesses {
		if x.array == a {
			return l.ptrs[i]
		}
	}
	return 0
}

// Release gives the arrays back. Work that was queued on the lease's stream before
// may still use them; nothing that is queued later may. What was written becomes the
// content of the array. It fails with ErrFreed when the lease was released before,
// and with the reason when the content of an array never came.
func (l *Lease) Release() error {
	s := l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.over {
		return fmt.Errorf("tier: release: %w", errReleased)
	}
	l.over = true
	delete(s.watched, l)
	if s.ended {
		return ErrClosed
	}
	ev, err := s.events.get()
	if err == nil {
		if err = l.stream.Record(ev); err != nil {
			s.events.put(ev)
			// Nobody can say when the work is done but the device.
			err = errors.Join(fmt.Errorf("tier: release: %w", err), s.dev.Synchronize())
			ev = nil
		}
	}
	k := &mark{event: ev, stream: l.stream, refs: 1}
	for _, x := range l.use.accesses {
		a := x.array
		if a.dev.state == abandoned {
			err = errors.Join(err, a.dev.failed, a.lost)
			a.lost = nil
			continue
		}
		if ev != nil {
			a.marks.add(s, k, x.mode != read)
		}
		if x.mode != read {
			a.version++
			a.dev.version = a.version
			a.dev.fresh = false
			s.forgetStale(a)
		}
	}
	if ev != nil {
		s.unref(k)
	}
	s.end(l.use)
	s.starved = nil
	s.pump()
	return err
}

// LeaseInfo describes a lease that was not released.
type LeaseInfo struct {
	ID    int64  // differs from those of a store's other leases
	Name  string // of its first array
	Bytes int64  // of its arrays

	// Stack is where Use was called, as program counters for runtime.CallersFrames.
	Stack []uintptr
}

// Leases lists the leases that were not released, of those that were taken while
// somebody looked for leaks.
func (s *Store) Leases() []LeaseInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.watched))
}

var errReleased = fmt.Errorf("lease: %w", ErrFreed)
