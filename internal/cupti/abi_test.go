package cupti

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/cupti.c prints with the vendor's header.
//
//go:embed testdata/abi/cupti.txt
var abi []byte

// TestABI compares the values and layouts that the binding is written with to those of
// the vendor's header.
func TestABI(t *testing.T) {
	bound := map[string]uintptr{
		"kindMemcpy": kindMemcpy, "kindMemset": kindMemset, "kindKernel": kindKernel, "kindMemcpy2": kindMemcpy2,
		"copyH2D": copyH2D, "copyD2H": copyD2H, "copyH2A": copyH2A, "copyA2H": copyA2H, "copyH2H": copyH2H, "copyP2P": copyP2P,
		"codeLimitReached": codeLimitReached, "codeMultipleSubscribers": codeMultipleSubscribers, "forced": forced,
		"sizeof(kind)":  unsafe.Sizeof(uint32(0)),
		"copy.copyKind": copyKindAt, "kernel.name": layouts[kindKernel].name,
	}
	for record, kind := range map[string]uint32{"kernel": kindKernel, "copy": kindMemcpy, "peer": kindMemcpy2, "set": kindMemset} {
		l := layouts[kind]
		bound[record+".start"], bound[record+".end"] = l.start, l.end
		bound[record+".deviceId"], bound[record+".streamId"] = l.device, l.stream
		if l.bytes > 0 {
			bound[record+".bytes"] = l.bytes
		}
		if last := max(l.end+8, l.stream+4, l.bytes+8); l.size < last || l.name > 0 && l.size < l.name+8 {
			t.Errorf("%s: %d bytes are too few", record, l.size)
		}
	}
	testkit.ABI(t, abi, bound)
}
