package cuda

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
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
		d     Device
		l     location
		prop  allocationProp
		pool  poolProps
		acc   accessDesc
		attrs memcpyAttributes
		box   memcpy3D
		mem   memOp
	)
	bound := map[string]uintptr{
		"resultInvalidValue":       resultInvalidValue,
		"resultOutOfMemory":        resultOutOfMemory,
		"resultNoDevice":           resultNoDevice,
		"resultInvalidContext":     resultInvalidContext,
		"resultInvalidHandle":      resultInvalidHandle,
		"resultContextDestroyed":   resultContextDestroyed,
		"resultUnsupportedPTX":     resultUnsupportedPTX,
		"resultOperatingSystem":    resultOperatingSystem,
		"resultNotPermitted":       resultNotPermitted,
		"resultNotReady":           resultNotReady,
		"resultPeerAccessEnabled":  resultPeerAccessEnabled,
		"resultAlreadyRegistered":  resultAlreadyRegistered,
		"resultNotSupported":       resultNotSupported,
		"resultCaptureUnsupported": resultCaptureUnsupported,
		"resultCaptureWrongThread": resultCaptureWrongThread,
		"attrMaxPitch":             attrMaxPitch,
		"attrMultiprocessors":      attrMultiprocessors,
		"attrIntegrated":           attrIntegrated,
		"attrCanMapHostMemory":     attrCanMapHostMemory,
		"attrAsyncEngines":         attrAsyncEngines,
		"attrComputeMajor":         attrComputeMajor,
		"attrComputeMinor":         attrComputeMinor,
		"attrManagedMemory":        attrManagedMemory,
		"attrConcurrentManaged":    attrConcurrentManaged,
		"attrVirtualMemory":        attrVirtualMemory,
		"attrMemoryPools":          attrMemoryPools,
		"pointerMemoryType":        pointerMemoryType,
		"pointerDeviceOrdinal":     pointerDeviceOrdinal,
		"pointerRangeStart":        pointerRangeStart,
		"pointerRangeSize":         pointerRangeSize,
		"memoryTypeHost":           memoryTypeHost,
		"memoryTypeUnified":        memoryTypeUnified,
		"srcAccessOrderStream":     srcAccessOrderStream,
		"hostAllocPortable":        hostAllocPortable,
		"hostAllocDeviceMap":       hostAllocDeviceMap,
		"hostAllocWriteCombined":   hostAllocWriteCombined,
		"hostRegisterPortable":     hostRegisterPortable,
		"hostRegisterDeviceMap":    hostRegisterDeviceMap,
		"streamNonBlocking":        streamNonBlocking,
		"streamPerThread":          streamPerThread,
		"eventBlockingSync":        eventBlockingSync,
		"eventDisableTiming":       eventDisableTiming,
		"captureGlobal":            captureGlobal,
		"captureRelaxed":           captureRelaxed,
		"captureNone":              captureNone,
		"memAttachGlobal":          memAttachGlobal,
		"adviseReadMostly":         adviseReadMostly,
		"unadviseReadMostly":       unadviseReadMostly,
		"advisePreferred":          advisePreferred,
		"unadvisePreferred":        unadvisePreferred,
		"adviseAccessedBy":         adviseAccessedBy,
		"unadviseAccessedBy":       unadviseAccessedBy,
		"rangeReadMostly":          rangeReadMostly,
		"rangePreferred":           rangePreferred,
		"rangeAccessedBy":          rangeAccessedBy,
		"rangeLastPrefetch":        rangeLastPrefetch,
		"hostDevice":               hostDevice,
		"noDevice":                 noDevice,
		"allocationPinned":         allocationPinned,
		"locationDevice":           locationDevice,
		"locationHost":             locationHost,
		"accessReadWrite":          accessReadWrite,
		"granularityMinimum":       granularityMinimum,
		"poolReleaseThreshold":     poolReleaseThreshold,
		"launchParamBufferPointer": launchParamBufferPointer,
		"launchParamBufferSize":    launchParamBufferSize,
		"launchParamEnd":           launchParamEnd,
		"funcMaxSharedBytes":       funcMaxSharedBytes,
		"ipcLazyPeerAccess":        ipcLazyPeerAccess,
		"memOpWait":                memOpWait,
		"memOpWrite":               memOpWrite,
		"memOpWaitGEQ":             memOpWaitGEQ,
		"memOpWriteDefault":        0,

		"sizeof(Device.handle)":                     unsafe.Sizeof(d.handle),
		"sizeof(Device.context)":                    unsafe.Sizeof(d.context),
		"sizeof(device.Ptr)":                        unsafe.Sizeof(device.Ptr(0)),
		"sizeof(device.Chunk)":                      unsafe.Sizeof(device.Chunk(0)),
		"sizeof(location)":                          unsafe.Sizeof(l),
		"offsetof(location.kind)":                   unsafe.Offsetof(l.kind),
		"offsetof(location.id)":                     unsafe.Offsetof(l.id),
		"sizeof(allocationProp)":                    unsafe.Sizeof(prop),
		"offsetof(allocationProp.kind)":             unsafe.Offsetof(prop.kind),
		"offsetof(allocationProp.handleTypes)":      unsafe.Offsetof(prop.handleTypes),
		"offsetof(allocationProp.location)":         unsafe.Offsetof(prop.location),
		"offsetof(allocationProp.win32)":            unsafe.Offsetof(prop.win32),
		"offsetof(allocationProp.flags)":            unsafe.Offsetof(prop.flags),
		"sizeof(poolProps)":                         unsafe.Sizeof(pool),
		"offsetof(poolProps.kind)":                  unsafe.Offsetof(pool.kind),
		"offsetof(poolProps.handleTypes)":           unsafe.Offsetof(pool.handleTypes),
		"offsetof(poolProps.location)":              unsafe.Offsetof(pool.location),
		"offsetof(poolProps.win32)":                 unsafe.Offsetof(pool.win32),
		"offsetof(poolProps.maxBytes)":              unsafe.Offsetof(pool.maxBytes),
		"sizeof(Device.pool)":                       unsafe.Sizeof(d.pool),
		"sizeof(accessDesc)":                        unsafe.Sizeof(acc),
		"offsetof(accessDesc.location)":             unsafe.Offsetof(acc.location),
		"offsetof(accessDesc.flags)":                unsafe.Offsetof(acc.flags),
		"sizeof(memcpyAttributes)":                  unsafe.Sizeof(attrs),
		"offsetof(memcpyAttributes.srcAccessOrder)": unsafe.Offsetof(attrs.srcAccessOrder),
		"offsetof(memcpyAttributes.srcLocation)":    unsafe.Offsetof(attrs.srcLocation),
		"offsetof(memcpyAttributes.dstLocation)":    unsafe.Offsetof(attrs.dstLocation),
		"offsetof(memcpyAttributes.flags)":          unsafe.Offsetof(attrs.flags),
		"sizeof(memcpy3D)":                          unsafe.Sizeof(box),
		"offsetof(memcpy3D.src.x)":                  unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.x),
		"offsetof(memcpy3D.src.y)":                  unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.y),
		"offsetof(memcpy3D.src.z)":                  unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.z),
		"offsetof(memcpy3D.src.level)":              unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.level),
		"offsetof(memcpy3D.src.memoryType)":         unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.memoryType),
		"offsetof(memcpy3D.src.host)":               unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.host),
		"offsetof(memcpy3D.src.device)":             unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.device),
		"offsetof(memcpy3D.src.array)":              unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.array),
		"offsetof(memcpy3D.src.pitch)":              unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.pitch),
		"offsetof(memcpy3D.src.height)":             unsafe.Offsetof(box.src) + unsafe.Offsetof(box.src.height),
		"offsetof(memcpy3D.dst.x)":                  unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.x),
		"offsetof(memcpy3D.dst.y)":                  unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.y),
		"offsetof(memcpy3D.dst.z)":                  unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.z),
		"offsetof(memcpy3D.dst.level)":              unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.level),
		"offsetof(memcpy3D.dst.memoryType)":         unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.memoryType),
		"offsetof(memcpy3D.dst.host)":               unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.host),
		"offsetof(memcpy3D.dst.device)":             unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.device),
		"offsetof(memcpy3D.dst.array)":              unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.array),
		"offsetof(memcpy3D.dst.pitch)":              unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.pitch),
		"offsetof(memcpy3D.dst.height)":             unsafe.Offsetof(box.dst) + unsafe.Offsetof(box.dst.height),
		"offsetof(memcpy3D.width)":                  unsafe.Offsetof(box.width),
		"offsetof(memcpy3D.rows)":                   unsafe.Offsetof(box.rows),
		"offsetof(memcpy3D.planes)":                 unsafe.Offsetof(box.planes),
		"sizeof(CUipcMemHandle)":                    nameBytes - nameHandle,
		"sizeof(memOp)":                             unsafe.Sizeof(mem),
		"offsetof(memOp.kind)":                      unsafe.Offsetof(mem.kind),
		"offsetof(memOp.address)":                   unsafe.Offsetof(mem.address),
		"offsetof(memOp.value)":                     unsafe.Offsetof(mem.value),
		"offsetof(memOp.flags)":                     unsafe.Offsetof(mem.flags),
	}
	testkit.ABI(t, abi, bound)
}
