package nccl

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// api is the part of NCCL that Pinion calls.
var api struct {
	getVersion, getUniqueID, errorString, lastError            dl.Func
	initRank, split, finalize, destroy, abort                  dl.Func
	asyncError, count, userRank                                dl.Func
	groupStart, groupEnd                                       dl.Func
	allReduce, reduceScatter, allGather, broadcast, send, recv dl.Func
}

// Values of nccl.h. testdata/abi/abi.c prints them.
const (
	success         = 0
	invalidArgument = 4
	invalidUsage    = 5
	inProgress      = 7

	typeI8   = 0
	typeU8   = 1
	typeI32  = 2
	typeU32  = 3
	typeI64  = 4
	typeU64  = 5
	typeF16  = 6
	typeF32  = 7
	typeF64  = 8
	typeBF16 = 9

	opSum  = 0
	opProd = 1
	opMax  = 2
	opMin  = 3
	opAvg  = 4

	idBytes = 128
	noColor = -1

	configMagic = 0xcafebeef
	configUnset = math.MinInt32
)

var types = map[dtype.DType]uintptr{
	dtype.I8: typeI8, dtype.U8: typeU8, dtype.I32: typeI32, dtype.U32: typeU32, dtype.I64: typeI64, dtype.U64: typeU64,
	dtype.F16: typeF16, dtype.BF16: typeBF16, dtype.F32: typeF32, dtype.F64: typeF64,
}

var ops = [...]uintptr{parallel.Sum: opSum, parallel.Prod: opProd, parallel.Min: opMin, parallel.Max: opMax, parallel.Avg: opAvg}

// minVersion is the first that takes ids by their address: ncclCommInitRankScalable.
const minVersion = 22300

// config is ncclConfig_t as minVersion has it. Newer versions see by its size and version
// what is not in it.
type config struct {
	size           uintptr
	magic, version uint32
	blocking       int32
	cgaClusterSize int32
	minCTAs        int32
	maxCTAs        int32
	netName        uintptr
	splitShare     int32
}

// newConfig is the configuration of a communicator. What NCCL does for one that does not
// block goes on after the call, in a thread that NCCL makes for each: it can be aborted, and
// an operation takes several times as long to queue. Operations have so many thread blocks at
// most, each of which takes a multiprocessor; 0: as many as NCCL likes.
func newConfig(blocking, mostBlocks int32) *config {
	if mostBlocks == 0 {
		mostBlocks = configUnset
	}
	return &config{
		size: unsafe.Sizeof(config{}), magic: configMagic, version: minVersion, blocking: blocking,
		cgaClusterSize: configUnset, minCTAs: configUnset, maxCTAs: mostBlocks, splitShare: configUnset,
	}
}

// library is [load], once for the process.
var library = dl.Bind("NCCL", "ranks on several GPUs", load)

// load loads NCCL and returns the file and its version.
func load() (file string, version int, err error) {
	var files []string
	if runtime.GOOS == "linux" {
		files = append([]string{"libnccl.so.2"}, dl.Wheels("nccl", "libnccl.so.2")...)
	}
	file, err = dl.Open(dl.Library{
		Name:  "nccl",
		Files: files,
		Symbols: []dl.Symbol{
			{Name: "ncclGetVersion", Func: &api.getVersion},
			{Name: "ncclGetUniqueId", Func: &api.getUniqueID},
			{Name: "ncclGetErrorString", Func: &api.errorString},
			{Name: "ncclCommGetAsyncError", Func: &api.asyncError},
			{Name: "ncclCommAbort", Func: &api.abort},
			{Name: "ncclCommDestroy", Func: &api.destroy},
			{Name: "ncclCommCount", Func: &api.count},
			{Name: "ncclCommUserRank", Func: &api.userRank},
			{Name: "ncclGroupStart", Func: &api.groupStart},
			{Name: "ncclGroupEnd", Func: &api.groupEnd},
			{Name: "ncclAllReduce", Func: &api.allReduce},
			{Name: "ncclReduceScatter", Func: &api.reduceScatter},
			{Name: "ncclAllGather", Func: &api.allGather},
			{Name: "ncclBroadcast", Func: &api.broadcast},
			// Whatever lacks these is too old, which its version says better.
			{Name: "ncclSend", Func: &api.send, Optional: true},
			{Name: "ncclRecv", Func: &api.recv, Optional: true},
			{Name: "ncclGetLastError", Func: &api.lastError, Optional: true},
			{Name: "ncclCommFinalize", Func: &api.finalize, Optional: true},
			{Name: "ncclCommSplit", Func: &api.split, Optional: true},
			{Name: "ncclCommInitRankScalable", Func: &api.initRank, Optional: true},
		},
	})
	if err != nil {
		return "", 0, fmt.Errorf("NCCL is not installed: %w; NVIDIA's package libnccl2 has it, and so do the wheels nvidia-nccl-cu12 and -cu13", err)
	}
	var v int32
	if err := check("ncclGetVersion", api.getVersion.Call(uintptr(unsafe.Pointer(&v)))); err != nil {
		return "", 0, err
	}
	if v < minVersion {
		return "", 0, fmt.Errorf("%s is NCCL %s; %s or newer is needed", file, dl.VersionText(int(v)), dl.VersionText(minVersion))
	}
	return file, int(v), nil
}

// Version is the library's name and version, "NCCL 2.27.7". It fails with
// [device.ErrNotSupported] where there is none that can be used, and says why.
func Version() (string, error) {
	v, err := library()
	if err != nil {
		return "", fmt.Errorf("nccl: %w: %w", device.ErrNotSupported, err)
	}
	return "NCCL " + dl.VersionText(v), nil
}

// Error is a failed call of the library. Arguments that NCCL refuses are
// [parallel.ErrArgument] to errors.Is.
type Error struct {
	Call   string // such as "ncclAllReduce"
	Code   int    // ncclResult_t
	Text   string // NCCL's for the code
	Detail string // of NCCL's last error, which may be another's; "" if there was none
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// Is makes errors.Is(err, parallel.ErrArgument) work.
func (e *Error) Is(target error) bool {
	return target == parallel.ErrArgument && (e.Code == invalidArgument || e.Code == invalidUsage)
}

// check makes an error of the result of a call that is over.
func check(call string, result uintptr) error {
	code := int(int32(result))
	if code == success {
		return nil
	}
	e := &Error{Call: call, Code: code, Text: dl.GoString(api.errorString.Call(uintptr(code)))}
	if api.lastError.Ok() {
		e.Detail = strings.TrimSpace(dl.GoString(api.lastError.Call(0)))
	}
	return e
}
