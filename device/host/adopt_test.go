package host_test

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Memory of others is the device's between Adopt and Disown, and never counts.
func TestAdopt(t *testing.T) {
	dev, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	s, err := dev.NewStream()
	testkit.OK(t, err)
	before, err := dev.Memory()
	testkit.OK(t, err)
	theirs := make([]byte, 1<<16)
	p := device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(theirs))))
	testkit.WantError(t, "a copy to memory of others", s.CopyH2D(p, []byte("hello")), device.ErrPointer)
	testkit.OK(t, dev.Adopt(p, int64(len(theirs))))
	testkit.WantError(t, "memory that was adopted", dev.Adopt(p+8, 8), device.ErrArgument)
	testkit.WantError(t, "no memory", dev.Adopt(p+1<<20, 0), device.ErrArgument)
	testkit.OK(t, s.CopyH2D(p+8, []byte("hello")))
	testkit.OK(t, s.Memset(p, 1, 8))
	testkit.WantError(t, "Free of what is not the device's", dev.Free(p), device.ErrPointer)
	testkit.OK(t, dev.Disown(p))
	if want := append(bytes.Repeat([]byte{1}, 8), "hello"...); !bytes.HasPrefix(theirs, want) {
		t.Errorf("the memory begins with %v, want %v", theirs[:16], want)
	}
	after, err := dev.Memory()
	testkit.OK(t, err)
	if after != before {
		t.Errorf("memory was %+v, and is %+v", before, after)
	}
	testkit.WantError(t, "a second Disown", dev.Disown(p), device.ErrPointer)
	testkit.WantError(t, "a copy after Disown", s.CopyH2D(p, []byte("hello")), device.ErrPointer)
	testkit.OK(t, dev.Close())
	testkit.WantError(t, "Adopt after Close", dev.Adopt(p, 8), device.ErrClosed)
}
