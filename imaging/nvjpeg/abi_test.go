package nvjpeg

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
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
	testkit.ABI(t, abi, bound)
}
