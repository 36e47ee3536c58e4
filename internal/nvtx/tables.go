package nvtx

import (
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// Values of nvtxTypes.h and nvToolsExt.h.
const (
	version      = 3
	messageASCII = 1

	tableCallbacks = 1 // NvtxExportTableID
	tableVersion   = 3

	moduleCore   = 1 // NvtxCallbackModule
	moduleCUDA   = 2
	moduleOpenCL = 3
	moduleCUDART = 4
	moduleCore2  = 5
	moduleSync   = 6
	modules      = 7

	domainRangeStartEx = 2 // NvtxCallbackIdCore2
	domainRangeEnd     = 3
	domainCreateA      = 12
)

// functions is how many functions a module has, with the one of number 0 that is none.
var functions = [modules]int{moduleCore: 16, moduleCUDA: 9, moduleOpenCL: 15, moduleCUDART: 7, moduleCore2: 16, moduleSync: 7}

const mostFunctions = 16

// attributes is nvtxEventAttributes_v2.
type attributes struct {
	version, size uint16
	category      uint32
	colorType     int32
	color         uint32
	payloadType   int32
	_             int32
	payload       uint64
	messageType   int32
	message       uintptr
}

// callbacksTable is NvtxExportTableCallbacks.
type callbacksTable struct {
	size     uintptr
	getTable uintptr
}

// versionTable is NvtxExportTableVersionInfo.
type versionTable struct {
	size       uintptr
	version    uint32
	_          uint32
	setVersion uintptr
}

// What a tool gets the addresses of, and may keep: variables of the package stay where
// they are. A tool writes addresses of its functions into slots; tables point to slots.
var (
	slots     [modules][mostFunctions]uintptr
	tables    [modules][mostFunctions + 1]uintptr
	callbacks callbacksTable
	info      versionTable
)

func makeTables() {
	for m, n := range functions {
		for i := 1; i < n; i++ {
			tables[m][i] = uintptr(unsafe.Pointer(&slots[m][i]))
		}
	}
	callbacks = callbacksTable{unsafe.Sizeof(callbacks), purego.NewCallback(moduleTable)}
	info = versionTable{size: unsafe.Sizeof(info), version: version, setVersion: purego.NewCallback(func(uintptr) uintptr { return 0 })}
}

// exportTable is called by the tool.
func exportTable(id uintptr) uintptr {
	switch uint32(id) {
	case tableCallbacks:
		return uintptr(unsafe.Pointer(&callbacks))
	case tableVersion:
		return uintptr(unsafe.Pointer(&info))
	}
	return 0
}

// moduleTable is called by the tool, which may leave out where to write the answers.
func moduleTable(module, table, size uintptr) uintptr {
	m := uint32(module)
	if m >= modules || functions[m] == 0 {
		return 0
	}
	if table != 0 {
		*(*uintptr)(dl.Pointer(table)) = uintptr(unsafe.Pointer(&tables[m]))
	}
	if size != 0 {
		*(*uint32)(dl.Pointer(size)) = uint32(functions[m])
	}
	return 1
}
