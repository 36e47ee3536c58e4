package device

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Args collects the parameters of a kernel, each at the offset that C gives
// it in a parameter list. The zero value is empty; methods return the
// receiver so that calls chain. There is room for [MaxArgs] bytes.
type Args struct {
	buf  [MaxArgs]byte
	n    int
	over bool
}

// MaxArgs is the most bytes of parameters that a kernel can have.
const MaxArgs = 256

// Err reports parameters that did not fit.
func (a *Args) Err() error {
	if a.over {
		return fmt.Errorf("%w: the parameters of the kernel take more than %d bytes", ErrArgument, MaxArgs)
	}
	return nil
}

// Bytes is the parameter block so far.
func (a *Args) Bytes() []byte { return a.buf[:a.n] }

// Ptr appends a device pointer.
func (a *Args) Ptr(p Ptr) *Args { return a.Int64(int64(p)) }

// Int64 appends a 64-bit integer of either sign.
func (a *Args) Int64(v int64) *Args {
	if b := a.extend(8); b != nil {
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
	return a
}

// Int32 appends a 32-bit integer of either sign.
func (a *Args) Int32(v int32) *Args { return a.uint32(uint32(v)) }

// Float32 appends a float.
func (a *Args) Float32(v float32) *Args { return a.uint32(math.Float32bits(v)) }

func (a *Args) uint32(v uint32) *Args {
	if b := a.extend(4); b != nil {
		binary.LittleEndian.PutUint32(b, v)
	}
	return a
}

// extend makes room for a parameter of that size at a multiple of its size;
// nil is no room.
func (a *Args) extend(size int) []byte {
	at := (a.n + size - 1) &^ (size - 1)
	if at+size > len(a.buf) {
		a.over = true
		return nil
	}
	a.n = at + size
	return a.buf[at:a.n]
}
