package segment

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/sysmem"
)

// Errors of shared segments, for [errors.Is], beside [device.ErrPinLimit],
// [device.ErrNotSupported], [device.ErrArgument] and, for a segment that was
// closed, [device.ErrClosed].
var (
	// ErrInvalid: not a segment, or not the one that was expected: another
	// layout version, a size that does not match, another generation.
	ErrInvalid = errors.New("not a usable segment")
	// ErrMemory: the machine, or the process's control group, has not that much
	// memory left.
	ErrMemory = sysmem.ErrMemory
	// ErrOwned: live processes have the segment mapped.
	ErrOwned = errors.New("segment has live owners")
	// ErrPinned: the segment is pinned for that device already, or another
	// device relies on its pin.
	ErrPinned = errors.New("segment already pinned")
)

// Segment is host memory that several processes map and that each of them
// page-locks for its own devices: no process can lock memory for another, so
// pinned memory that is copied or serialised to another process arrives
// pageable. Everybody sees the same bytes; who may write which of them when
// is for the processes to agree on, over a socket say.
//
// Each open Segment is an owner, listed in the segment's header with its
// process, so that what a killed process leaves behind is found and taken
// over. The memory goes back to the system when its last owner has gone.
//
// All methods are safe for concurrent use.
type Segment struct {
	// These do not change.
	header  header
	path    string // of the file; empty: it never had one
	creator bool
	self    process.ID
	slot    int // in the owner table

	mu   sync.RWMutex // Close takes it for writing
	file *os.File     // nil once closed
	mem  []byte       // header and data; nil once closed

	pinning sync.Mutex // with mu for reading, guards pins
	pins    []pinFor
}

// Bytes returns the memory: Len bytes, on a page boundary, with a capacity of
// whole pages that all belong to the segment. A new segment holds zeros. The
// slice must not be used after Close, from when on Bytes returns nil.
func (s *Segment) Bytes() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mem == nil {
		return nil
	}
	return s.data()[:s.header.size]
}

// data is all whole pages behind the header.
func (s *Segment) data() []byte { return s.mem[headerBytes:len(s.mem):len(s.mem)] }

// Len returns the size that the segment was created with, in bytes.
func (s *Segment) Len() int64 { return s.header.size }

// Name returns the name that the segment was created with.
func (s *Segment) Name() string { return s.header.name }

// Path returns the absolute path of the segment's file, or "" for an
// anonymous one.
func (s *Segment) Path() string { return s.path }

// Generation returns the random number, never zero, that tells this segment
// from all others, also from an earlier or later one at the same path.
func (s *Segment) Generation() uint64 { return s.header.generation }

// File returns the segment's file, to hand on: to a child process in
// [os/exec.Cmd.ExtraFiles], which then calls [Open]. It belongs to the
// segment: do not close it, nor use it after Close, from when on File returns
// nil.
func (s *Segment) File() *os.File {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.file
}

// label names the segment in errors.
func (h header) label() string {
	if h.name == "" {
		return fmt.Sprintf("segment %016x", h.generation)
	}
	return fmt.Sprintf("segment %q", h.name)
}

func (s *Segment) closedError(what string) error {
	return fmt.Errorf("segment: %s: %w: %s", what, device.ErrClosed, s.header.label())
}

// fileBytes is the size of the file of a segment with n bytes of data.
func fileBytes(n int64) int64 { return headerBytes + pagemem.RoundUp(n) }

// identify returns the identity of this process, which every owner needs.
func identify() (process.ID, error) {
	self, err := process.Self()
	if errors.Is(err, errors.ErrUnsupported) {
		return self, fmt.Errorf("segment: %w: shared segments need Linux or macOS", device.ErrNotSupported)
	}
	return self, err
}
