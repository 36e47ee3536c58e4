package nvjpeg

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"testing"
	"unsafe"
)

// abi is what testdata/abi/abi.c printed with the vendor's header.
//
//go:embed testdata/abi/abi.txt
var abi []byte

// TestABI compares the values and layouts that the binding is written with to
// those of the vendor's header.
func TestABI(t *testing.T) {
	var (
		d Decoder
		m nvImage
	)
	bound := map[string]uintptr{
		"statusInvalidParameter":    statusInvalidParameter,
		"statusBadJPEG":             statusBadJPEG,
		"statusNotSupported":        statusNotSupported,
		"statusAllocator":           statusAllocator,
		"statusArchMismatch":        statusArchMismatch,
		"statusNotImplemented":      statusNotImplemented,
		"statusIncomplete":          statusIncomplete,
		"backendGPUHybrid":          backendGPUHybrid,
		"backendHardware":           backendHardware,
		"outputRGBI":                outputRGBI,
		"flagInterpolate":           flagInterpolate,
		"propertyMajor":             propertyMajor,
		"propertyMinor":             propertyMinor,
		"sizeof(Decoder.handle)":    unsafe.Sizeof(d.handle),
		"sizeof(Decoder.state)":     unsafe.Sizeof(d.state),
		"sizeof(batch.lengths)":     unsafe.Sizeof(d.batch.lengths[0]),
		"sizeof(nvImage)":           unsafe.Sizeof(m),
		"offsetof(nvImage.channel)": unsafe.Offsetof(m.channel),
		"offsetof(nvImage.pitch)":   unsafe.Offsetof(m.pitch),
	}
	for lines := bufio.NewScanner(bytes.NewReader(abi)); lines.Scan(); {
		var name string
		var header uintptr
		if _, err := fmt.Sscan(lines.Text(), &name, &header); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if ours, ok := bound[name]; !ok || ours != header {
			t.Errorf("%s is %d in the header, here %d (%t)", name, header, ours, ok)
		}
		delete(bound, name)
	}
	if len(bound) > 0 {
		t.Errorf("the header's values are not recorded: %v", bound)
	}
}
