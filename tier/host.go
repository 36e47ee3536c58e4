package tier

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// ReadAt copies len(p) bytes of the array at an offset to host memory. It is ordered
// as a Use that reads is, and fails as that does. The array comes to host memory for
// it, unless it is there.
func (a *Array) ReadAt(ctx context.Context, p []byte, offset int64) error {
	return a.host(ctx, p, offset, false)
}

// WriteAt copies p into the array at an offset, in host memory. It is ordered as a
// Use that writes is, and fails as that does: the content is then as it was. An array
// that is written as a whole is not brought in for it.
func (a *Array) WriteAt(ctx context.Context, p []byte, offset int64) error {
	return a.host(ctx, p, offset, true)
}

func (a *Array) host(ctx context.Context, p []byte, offset int64, writes bool) error {
	n := int64(len(p))
	if offset < 0 || n > a.bytes-offset {
		return fmt.Errorf("tier: %v: %w: %d bytes at %d of %d", a, device.ErrArgument, n, offset, a.bytes)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := read
	switch {
	case writes && n == a.bytes:
		mode = overwrite
	case writes:
		mode = write
	}
	u, err := s.newUse([]Access{{a, mode}}, true)
	if err != nil {
		return err
	}
	if n == 0 || a.version == 0 && !writes {
		s.leave(u)
		clear(p)
		return nil
	}
	s.active = append(s.active, u)
	if err := s.complete(ctx, u); err != nil {
		return err
	}
	return s.hostCopy(u, p, offset)
}

// wantHost takes the next step towards an array in host memory that the host can read,
// or write. It reports false while it lacks room.
func (s *Store) wantHost(x Access) bool {
	a := x.array
	if s.hostWaits(x) || s.inHost(x) {
		return true
	}
	switch {
	case x.mode == overwrite || a.version == 0:
		return s.takePlace(a)
	case a.inFile():
		return s.fetch(a)
	case a.dev.state == ready:
		return s.takePlace(a) && s.writeBack(a, false)
	}
	return true
}

// hostWaits reports whether moves that are under way have to end first.
func (s *Store) hostWaits(x Access) bool {
	a := x.array
	if x.mode != read {
		switch a.dev.state {
		case reserved:
			s.unreserve(a) // it was coming ahead of time
		case filling, launched, abandoned:
			return true
		}
	}
	return a.dev.cleaning || a.mem.filling || x.mode != read && a.mem.busy > 0
}

// inHost reports whether the memory that the host reads or writes is there.
func (s *Store) inHost(x Access) bool {
	a := x.array
	if x.mode == overwrite || a.version == 0 {
		return a.mem.held()
	}
	return a.inMemory()
}

// wakeHost completes a use by the host whose array is there. A move of it counts as
// under way until the host has copied.
func (s *Store) wakeHost(u *use) {
	x := u.accesses[0]
	a := x.array
	switch {
	case a.lost != nil:
		err := fmt.Errorf("tier: use %v: %w", a, a.lost)
		a.lost = nil
		s.finish(u, err)
	case !s.hostWaits(x) && s.inHost(x):
		a.mem.busy++
		a.mem.filling = x.mode != read
		s.inflight++
		s.finish(u, nil)
	}
}

// hostCopy copies between p and the array of a complete use. s.mu is held, except
// while it copies.
func (s *Store) hostCopy(u *use, p []byte, offset int64) error {
	x := u.accesses[0]
	a := x.array
	zero := a.version == 0 && x.mode == write
	s.mu.Unlock()
	err := s.allocMemory(a)
	if err == nil {
		if zero {
			a.mem.clear()
		}
		if x.mode == read {
			a.mem.copyOut(p, offset)
		} else {
			a.mem.copyIn(p, offset)
		}
	}
	s.mu.Lock()
	s.inflight--
	a.mem.busy--
	a.mem.filling = false
	switch {
	case err != nil:
		s.memoryFailed(a)
		err = fmt.Errorf("tier: %v: %w", a, err)
	case x.mode != read:
		a.version++
		a.mem.version = a.version
		s.forgetFile(a)
		if a.dev.state == ready {
			s.drop(a)
		}
	}
	s.leave(u)
	s.settled(a)
	return err
}

// memoryFree is what host memory has left. s.mu is held.
func (s *Store) memoryFree() int64 {
	free := int64(0)
	for _, p := range s.memory {
		free += p.room.Left()
	}
	return free
}
