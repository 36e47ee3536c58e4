package cuda

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// abi is what testdata/abi/abi.c printed with the vendor's header.
//
//go:embed testdata/abi/abi.txt
var abi []byte

// TestABI compares the values and layouts that the binding is written with to
// those of the vendor's header.
func TestABI(t *testing.T) {
	var (
		d    Device
		l    location
		prop allocationProp
		acc  accessDesc
	)
	bound := map[string]uintptr{
		"resultInvalidValue":       resultInvalidValue,
		"resultOutOfMemory":        resultOutOfMemory,
		"resultNoDevice":           resultNoDevice,
		"resultUnsupportedPTX":     resultUnsupportedPTX,
		"resultOperatingSystem":    resultOperatingSystem,
		"resultNotPermitted":       resultNotPermitted,
		"resultNotReady":           resultNotReady,
		"resultAlreadyRegistered":  resultAlreadyRegistered,
		"resultNotSupported":       resultNotSupported,
		"attrMultiprocessors":      attrMultiprocessors,
		"attrIntegrated":           attrIntegrated,
		"attrCanMapHostMemory":     attrCanMapHostMemory,
		"attrAsyncEngines":         attrAsyncEngines,
		"attrComputeMajor":         attrComputeMajor,
		"attrComputeMinor":         attrComputeMinor,
		"attrManagedMemory":        attrManagedMemory,
		"attrVirtualMemory":        attrVirtualMemory,
		"pointerMemoryType":        pointerMemoryType,
		"memoryTypeHost":           memoryTypeHost,
		"hostAllocPortable":        hostAllocPortable,
		"hostAllocDeviceMap":       hostAllocDeviceMap,
		"hostAllocWriteCombined":   hostAllocWriteCombined,
		"hostRegisterPortable":     hostRegisterPortable,
		"hostRegisterDeviceMap":    hostRegisterDeviceMap,
		"streamNonBlocking":        streamNonBlocking,
		"eventBlockingSync":        eventBlockingSync,
		"eventDisableTiming":       eventDisableTiming,
		"memAttachGlobal":          memAttachGlobal,
		"allocationPinned":         allocationPinned,
		"locationDevice":           locationDevice,
		"locationHost":             locationHost,
		"accessReadWrite":          accessReadWrite,
		"granularityMinimum":       granularityMinimum,
		"launchParamBufferPointer": launchParamBufferPointer,
		"launchParamBufferSize":    launchParamBufferSize,
		"launchParamEnd":           launchParamEnd,

		"sizeof(Device.handle)":                unsafe.Sizeof(d.handle),
		"sizeof(Device.context)":               unsafe.Sizeof(d.context),
		"sizeof(device.Ptr)":                   unsafe.Sizeof(device.Ptr(0)),
		"sizeof(device.Chunk)":                 unsafe.Sizeof(device.Chunk(0)),
		"sizeof(location)":                     unsafe.Sizeof(l),
		"offsetof(location.kind)":              unsafe.Offsetof(l.kind),
		"offsetof(location.id)":                unsafe.Offsetof(l.id),
		"sizeof(allocationProp)":               unsafe.Sizeof(prop),
		"offsetof(allocationProp.kind)":        unsafe.Offsetof(prop.kind),
		"offsetof(allocationProp.handleTypes)": unsafe.Offsetof(prop.handleTypes),
		"offsetof(allocationProp.location)":    unsafe.Offsetof(prop.location),
		"offsetof(allocationProp.win32)":       unsafe.Offsetof(prop.win32),
		"offsetof(allocationProp.flags)":       unsafe.Offsetof(prop.flags),
		"sizeof(accessDesc)":                   unsafe.Sizeof(acc),
		"offsetof(accessDesc.location)":        unsafe.Offsetof(acc.location),
		"offsetof(accessDesc.flags)":           unsafe.Offsetof(acc.flags),
	}
	lines := bufio.NewScanner(bytes.NewReader(abi))
	for lines.Scan() {
		var name string
		var want uintptr
		if _, err := fmt.Sscan(lines.Text(), &name, &want); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		got, ok := bound[name]
		if !ok {
			t.Errorf("%s: not compared", name)
		} else if got != want {
			t.Errorf("%s is %d, the header says %d", name, got, want)
		}
		delete(bound, name)
	}
	for name := range bound {
		t.Errorf("%s: the header's value is not recorded", name)
	}
}
