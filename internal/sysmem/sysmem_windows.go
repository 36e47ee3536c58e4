package sysmem

import (
	"math"
	"unsafe"

	"golang.org/x/sys/windows"
)

// memoryStatusEx is MEMORYSTATUSEX of sysinfoapi.h.
type memoryStatusEx struct {
	length               uint32
	memoryLoad           uint32
	totalPhys            uint64
	availPhys            uint64
	totalPageFile        uint64
	availPageFile        uint64
	totalVirtual         uint64
	availVirtual         uint64
	availExtendedVirtual uint64
}

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

func now() memory {
	if globalMemoryStatusEx.Find() != nil {
		return memory{}
	}
	var status memoryStatusEx
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return memory{}
	}
	// Windows commits memory when it is allocated: what is left of the commit
	// limit bounds it too.
	return memory{
		limit:     int64(min(status.totalPhys, math.MaxInt64)),
		available: int64(min(status.availPhys, status.availPageFile, math.MaxInt64)),
	}
}
