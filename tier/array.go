package tier

import (
	"fmt"
	"strconv"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tier/internal/forecast"
	"github.com/pinion-gpu/pinion/tier/internal/spans"
	"github.com/pinion-gpu/pinion/vram"
)

// Array is bytes of a [Store], wherever they are. Its methods are safe for
// concurrent use.
type Array struct {
	s     *Store
	name  string
	id    int64
	bytes int64
	size  int64     // bytes that it takes of a tier: whole pages
	stack []uintptr // of who made it, if anybody wanted to know

	// Guarded by Store.mu.

	freed   bool
	version uint64 // of the content; 0: never written, all zeros
	users   int    // calls of Use that hold the array or wait for it
	pins    int    // those of them that were admitted: the array cannot leave the device
	lent    int    // leases that hold it
	writing bool   // the one user writes

	dev  deviceCopy
	mem  memoryCopy
	file fileCopy

	marks marks // work of users on the device's copy

	lost  error // why the newest writes were lost; told to the next user
	stuck error // why it could not be written back, or read from its file, the last time

	reuse forecast.Reuse
	order *Order // that announced it; nil: none
	kept  bool   // order has it stay on the device
	cold  bool   // DontNeed, and not used since
}

// deviceState is how far a copy on the device is.
type deviceState uint8

const (
	absent    deviceState = iota
	reserved              // its bytes are set aside, the content is still below
	filling               // handed to the lane
	launched              // its memory and the copy into it are on the stream
	ready                 // the content is there
	abandoned             // it failed while it was in use: memory without content
)

type deviceCopy struct {
	state    deviceState
	block    vram.Block
	version  uint64
	fill     *move        // under way
	filled   device.Event // passed when the content is there; while launched
	ahead    bool         // brought in before anybody asked, and not used yet
	failed   error        // why it was abandoned
	cleaning bool         // it is being written back
	fresh    bool         // its content is not wanted: a user overwrites all of it
}

// memoryCopy is a place in host memory, with or without the newest content.
type memoryCopy struct {
	pool    *memoryPool
	spans   []spans.Span // of pool that are set aside; nil: none
	parts   [][]byte     // the memory; nil until a lane made it
	version uint64
	busy    int  // moves and copies by the host that read or write it
	filling bool // one of them writes
}

// Name is the name that the array was given.
func (a *Array) Name() string { return a.name }

// Bytes is the size.
func (a *Array) Bytes() int64 { return a.bytes }

// String names the array in reports.
func (a *Array) String() string {
	if a.name != "" {
		return strconv.Quote(a.name)
	}
	return fmt.Sprintf("array %d of %s", a.id, units.Bytes(a.bytes))
}

// ArrayInfo describes an array that was not freed.
type ArrayInfo struct {
	ID    int64 // counts up in a store
	Name  string
	Bytes int64

	// Stack is where it was made, as program counters for runtime.CallersFrames. It
	// is there only if somebody looked for leaks then.
	Stack []uintptr
}

// Live lists the arrays that were not freed, in no order.
func (s *Store) Live() (list []ArrayInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.arrays {
		list = append(list, ArrayInfo{ID: a.id, Name: a.name, Bytes: a.bytes, Stack: a.stack})
	}
	return list
}

// held reports whether the array has a place.
func (m *memoryCopy) held() bool { return m.spans != nil }

// inMemory reports whether the newest content is in host memory.
func (a *Array) inMemory() bool {
	return a.mem.parts != nil && !a.mem.filling && a.mem.version == a.version
}

// clean reports whether the device's copy may go: the content is below too.
func (a *Array) clean() bool { return a.version == 0 || a.inMemory() || a.inFile() }

// resident reports whether the device has the content, or will have it by the time
// that work which is queued now begins.
func (a *Array) resident() bool { return a.dev.state == ready || a.dev.state == launched }

// Free gives the array back, with its content. It fails with ErrInUse while a Use
// holds the array, and with ErrFreed if it was freed before.
func (a *Array) Free() error {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.freed {
		return fmt.Errorf("tier: free %v: %w", a, ErrFreed)
	}
	if a.users > 0 {
		return fmt.Errorf("tier: free %v: %w", a, ErrInUse)
	}
	a.freed = true
	delete(s.arrays, a)
	s.committed -= a.size
	s.clock.HalfLife = halfLives * s.committed
	if a.order != nil {
		a.order.remove(a)
	}
	s.settle(a)
	s.pump()
	return nil
}

// settle frees what a freed array has and no move uses. Each move that ends calls
// it again. s.mu is held.
func (s *Store) settle(a *Array) {
	if a.dev.state == reserved {
		s.unreserve(a)
	}
	if a.dev.state == ready && !a.dev.cleaning {
		s.drop(a)
	}
	if a.mem.held() && a.mem.busy == 0 {
		s.release(a)
	}
	s.forgetFile(a)
}
