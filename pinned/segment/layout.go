package segment

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/process"
)

// The file of a segment is a header of 64 KiB, a whole number of pages on
// every system, and the data, rounded up to whole pages. Programs in other
// languages read and write it too, so it does not change within a layout
// version. Integers are little endian and unsigned; bytes not named are zero.
//
//	offset  bytes  header
//	     0      8  magic, "PINIONSG"
//	     8      4  layout version, 1
//	    16      8  bytes of data, before rounding; not 0
//	    24      8  generation, random; not 0
//	    32     32  the creator, in the form of an owner slot
//	    64     64  name, UTF-8, ends at the first zero byte
//	   128   3968  absolute path of the file, likewise; empty: there is none
//	  4096  32768  1024 owner slots of 32 bytes
//	 65536         data
//
//	offset  bytes  owner slot
//	     0      4  state: 0 free, 1 taken
//	     4      4  process number (PID)
//	     8      8  start time of the process: on Linux field 22 of
//	               /proc/PID/stat, in clock ticks after boot; on macOS
//	               microseconds since 1970
//	    16      8  PID namespace: on Linux the inode of /proc/PID/ns/pid
//
// A program that maps the segment takes a slot before it uses the data and
// frees it when it is done. It touches slots only while it holds a POSIX
// record lock for writing (fcntl F_SETLK or F_SETLKW) on the first byte of the
// file, and does not close any descriptor of the file meanwhile, which would
// lose the lock. To take a slot it fills in the rest first and the state last;
// so a process that is killed on the way leaves a free slot.
//
// A slot is free, whatever its state, when its process is dead: when it
// belongs to the same PID namespace as the reader and there is no process of
// that number, or one with another start time, or one whose threads are all
// exiting (a zombie, or on Linux PF_EXITING in field 9 of their stat).
//
// The message that carries a descriptor of the file over a Unix stream socket
// (SCM_RIGHTS) is 24 bytes: the magic, the generation, the bytes of data.
const (
	layoutMagic   = "PINIONSG"
	layoutVersion = 1
	maxBytes      = 1 << 56 // bytes of data that make sense; keeps sums in range

	versionAt    = 8
	sizeAt       = 16
	generationAt = 24
	creatorAt    = 32
	nameAt       = 64
	pathAt       = 128
	slotsAt      = 4096
	slotBytes    = 32
	slotCount    = 1024
	headerBytes  = 64 << 10

	maxName = pathAt - nameAt - 1
	maxPath = slotsAt - pathAt - 1
)

// header is the part of a segment's header that does not change.
type header struct {
	size       int64
	generation uint64
	creator    process.ID
	name, path string
}

// put writes h into b, which must be zero; the magic last.
func (h header) put(b []byte) {
	binary.LittleEndian.PutUint32(b[versionAt:], layoutVersion)
	binary.LittleEndian.PutUint64(b[sizeAt:], uint64(h.size))
	binary.LittleEndian.PutUint64(b[generationAt:], h.generation)
	putOwner(b[creatorAt:], h.creator)
	copy(b[nameAt:], h.name)
	copy(b[pathAt:], h.path)
	copy(b, layoutMagic)
}

// parseHeader reads the first bytes of a file, which need not be a segment.
func parseHeader(b []byte) (header, error) {
	if len(b) < headerBytes {
		return header{}, fmt.Errorf("%w: it has %d bytes, less than the header of %d", ErrInvalid, len(b), headerBytes)
	}
	if got := b[:len(layoutMagic)]; string(got) != layoutMagic {
		return header{}, fmt.Errorf("%w: it starts with %q, not %q", ErrInvalid, got, layoutMagic)
	}
	if v := binary.LittleEndian.Uint32(b[versionAt:]); v != layoutVersion {
		return header{}, fmt.Errorf("%w: it has layout version %d, this program knows %d", ErrInvalid, v, layoutVersion)
	}
	size := binary.LittleEndian.Uint64(b[sizeAt:])
	if size == 0 || size > maxBytes {
		return header{}, fmt.Errorf("%w: the header says %d bytes of data", ErrInvalid, size)
	}
	h := header{size: int64(size), generation: binary.LittleEndian.Uint64(b[generationAt:])}
	if h.generation == 0 {
		return header{}, fmt.Errorf("%w: generation 0", ErrInvalid)
	}
	_, h.creator = getOwner(b[creatorAt:])
	var named, placed bool
	h.name, named = getString(b[nameAt:pathAt])
	h.path, placed = getString(b[pathAt:slotsAt])
	if !named || !placed {
		return header{}, fmt.Errorf("%w: a name or path without an end", ErrInvalid)
	}
	return h, nil
}

func getString(b []byte) (s string, ok bool) {
	n := bytes.IndexByte(b, 0)
	if n < 0 {
		return "", false
	}
	return string(b[:n]), true
}

const (
	slotFree  = 0
	slotTaken = 1
)

// putOwner fills in a slot, the state last.
func putOwner(slot []byte, id process.ID) {
	binary.LittleEndian.PutUint32(slot[4:], id.PID)
	binary.LittleEndian.PutUint64(slot[8:], id.Start)
	binary.LittleEndian.PutUint64(slot[16:], id.Namespace)
	binary.LittleEndian.PutUint32(slot, slotTaken)
}

func getOwner(slot []byte) (taken bool, id process.ID) {
	return binary.LittleEndian.Uint32(slot) != slotFree, process.ID{
		PID:       binary.LittleEndian.Uint32(slot[4:]),
		Start:     binary.LittleEndian.Uint64(slot[8:]),
		Namespace: binary.LittleEndian.Uint64(slot[16:]),
	}
}
