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

func (a *Array) host(ctx context.Context, p []byte, offset int64, write bool) error {
	n := int64(len(p))
	if offset < 0 || n > a.bytes-offset {
		return fmt.Errorf("tier: %v: %w: %d bytes at %d of %d", a, device.ErrArgument, n, offset, a.bytes)
	}
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if err := a.usable(write); err != nil {
		return err
	}
	if n == 0 {
		return ctx.Err()
	}
	a.stuck = nil
	a.users++
	a.writing = write
	defer func() {
		a.users--
		if write {
			a.writing = false
		}
		s.settled(a)
	}()
	if a.version == 0 && !write {
		clear(p)
		return nil
	}
	whole := write && n == a.bytes
	for {
		err := s.reachHost(ctx, a, write, whole)
		if err != nil {
			return err
		}
		again := false
		if again, err = s.hostCopy(a, p, offset, write, whole); !again {
			return err
		}
	}
}

// reachHost waits until the host can read, or write, the array in host memory. s.mu
// is held, except while it waits.
func (s *Store) reachHost(ctx context.Context, a *Array, write, whole bool) error {
	for !s.inHost(a, write, whole) {
		if s.closed {
			return ErrClosed
		}
		if s.inflight == 0 && !s.lentAny() {
			cause := s.stuck
			s.stuck = nil
			return s.noRoom(a.String()+" in host memory", a.size, s.memoryFree(), cause)
		}
		if err := s.await(ctx); err != nil {
			return err
		}
		if err := a.stuck; err != nil {
			a.stuck = nil
			return err
		}
	}
	return nil
}

// hostCopy copies between p and the array in host memory. It reports whether the
// memory was not to be had, and more has to leave. s.mu is held, except while it
// copies.
func (s *Store) hostCopy(a *Array, p []byte, offset int64, write, whole bool) (again bool, err error) {
	a.mem.busy++
	a.mem.filling = write
	zero := a.version == 0 && !whole
	s.inflight++
	s.mu.Unlock()
	if err = s.allocMemory(a); err == nil {
		b := a.mem.buf.Bytes()
		if zero {
			clear(b)
		}
		if write {
			copy(b[offset:], p)
		} else {
			copy(p, b[offset:])
		}
	}
	s.mu.Lock()
	s.inflight--
	a.mem.busy--
	a.mem.filling = false
	if err != nil {
		return s.memoryFailed(a, err), fmt.Errorf("tier: %v: %w", a, err)
	}
	s.memoryLanded(a)
	if write {
		a.version++
		a.mem.version = a.version
		s.forgetFile(a)
		if a.dev.state == ready {
			s.drop(a)
		}
	}
	return false, nil
}

// inHost takes the next step towards host memory that the host can read, or write,
// and reports whether it is reached. s.mu is held.
func (s *Store) inHost(a *Array, write, whole bool) bool {
	if s.closed {
		return false
	}
	switch a.dev.state {
	case reserved:
		s.unreserve(a) // it was coming ahead of time
	case filling, launched, abandoned:
		if write {
			return false
		}
	}
	if a.dev.cleaning || write && a.mem.busy > 0 || a.mem.filling {
		return false
	}
	if whole || a.version == 0 {
		return a.mem.held || s.makePlace(a)
	}
	if a.inMemory() {
		return true
	}
	switch {
	case a.inFile():
		s.fetch(a)
	case a.dev.state == ready:
		s.writeBack(a, true)
	}
	return false
}

// lentAny reports whether any lease is out. s.mu is held.
func (s *Store) lentAny() bool {
	for a := range s.arrays {
		if a.lent > 0 {
			return true
		}
	}
	return false
}

// memoryFree is what host memory has left. s.mu is held.
func (s *Store) memoryFree() int64 {
	free := int64(0)
	for _, p := range s.memory {
		free += p.budget - p.used
	}
	return free
}
