package cuda

import (
	"runtime"
	"sync"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// api is the part of the driver that Pinion calls. Names are the driver's
// without "cu" and version suffix.
var api struct {
	initialise, driverGetVersion, getErrorName, getErrorString dl.Func

	deviceGetCount, deviceGet, deviceGetName, deviceGetUUID, deviceGetAttribute dl.Func
	deviceTotalMem, deviceGetPCIBusID                                           dl.Func
	primaryCtxRetain, primaryCtxRelease, ctxSetCurrent, ctxSynchronize          dl.Func
	ctxGetCurrent                                                               dl.Func

	memGetInfo, memAlloc, memFree                                    dl.Func
	memHostAlloc, memFreeHost, memHostRegister, memHostUnregister    dl.Func
	memHostGetDevicePointer, pointerGetAttribute                     dl.Func
	memcpyHtoDAsync, memcpyDtoHAsync, memcpyDtoDAsync, memsetD8Async dl.Func
	memcpy3DAsync, memcpyPeerAsync                                   dl.Func
	memcpyBatchAsync, memcpyBatchAsync12                             dl.Func // of CUDA 13, and with the parameters of CUDA 12
	deviceCanAccessPeer, ctxEnablePeerAccess                         dl.Func
	ipcGetMemHandle, ipcOpenMemHandle, ipcCloseMemHandle             dl.Func
	streamBatchMemOp                                                 dl.Func
	streamCreate, streamDestroy, streamSynchronize, streamWaitEvent  dl.Func
	eventCreate, eventDestroy, eventRecord, eventQuery               dl.Func
	ctxRecordEvent, streamGetCtx                                     dl.Func
	eventSynchronize, eventElapsedTime                               dl.Func
	threadExchangeStreamCaptureMode                                  dl.Func
	streamBeginCapture, streamEndCapture, streamIsCapturing          dl.Func
	graphInstantiate, graphUpload, graphLaunch                       dl.Func
	graphDestroy, graphExecDestroy                                   dl.Func
	moduleLoadData, moduleUnload, moduleGetFunction, launchKernel    dl.Func
	funcSetAttribute                                                 dl.Func
	memAllocManaged, memPrefetchAsync                                dl.Func
	memAdvise, memRangeGetAttribute                                  dl.Func
	memAddressReserve, memAddressFree, memCreate, memRelease         dl.Func
	memMap, memUnmap, memSetAccess, memGetAllocationGranularity      dl.Func
	memPoolCreate, memPoolDestroy, memPoolSetAttribute               dl.Func
	memPoolTrimTo, memAllocFromPoolAsync, memFreeAsync               dl.Func
}

// symbols says where each function comes from. Optional ones belong to
// capabilities that a device then does not report.
var symbols = []dl.Symbol{
	{Name: "cuInit", Func: &api.initialise},
	{Name: "cuDriverGetVersion", Func: &api.driverGetVersion},
	{Name: "cuGetErrorName", Func: &api.getErrorName},
	{Name: "cuGetErrorString", Func: &api.getErrorString},

	{Name: "cuDeviceGetCount", Func: &api.deviceGetCount},
	{Name: "cuDeviceGet", Func: &api.deviceGet},
	{Name: "cuDeviceGetName", Func: &api.deviceGetName},
	{Name: "cuDeviceGetUuid_v2", Func: &api.deviceGetUUID, Optional: true},
	{Name: "cuDeviceGetAttribute", Func: &api.deviceGetAttribute},
	{Name: "cuDeviceTotalMem_v2", Func: &api.deviceTotalMem},
	{Name: "cuDeviceGetPCIBusId", Func: &api.deviceGetPCIBusID},
	{Name: "cuDevicePrimaryCtxRetain", Func: &api.primaryCtxRetain},
	{Name: "cuDevicePrimaryCtxRelease_v2", Func: &api.primaryCtxRelease},
	{Name: "cuCtxSetCurrent", Func: &api.ctxSetCurrent},
	{Name: "cuCtxGetCurrent", Func: &api.ctxGetCurrent},
	{Name: "cuCtxSynchronize", Func: &api.ctxSynchronize},

	{Name: "cuMemGetInfo_v2", Func: &api.memGetInfo},
	{Name: "cuMemAlloc_v2", Func: &api.memAlloc},
	{Name: "cuMemFree_v2", Func: &api.memFree},
	{Name: "cuMemHostAlloc", Func: &api.memHostAlloc},
	{Name: "cuMemFreeHost", Func: &api.memFreeHost},
	{Name: "cuMemHostRegister_v2", Func: &api.memHostRegister},
	{Name: "cuMemHostUnregister", Func: &api.memHostUnregister},
	{Name: "cuMemHostGetDevicePointer_v2", Func: &api.memHostGetDevicePointer},
	{Name: "cuPointerGetAttribute", Func: &api.pointerGetAttribute},
	{Name: "cuMemcpyHtoDAsync_v2", Func: &api.memcpyHtoDAsync},
	{Name: "cuMemcpyDtoHAsync_v2", Func: &api.memcpyDtoHAsync},
	{Name: "cuMemcpyDtoDAsync_v2", Func: &api.memcpyDtoDAsync},
	{Name: "cuMemsetD8Async", Func: &api.memsetD8Async},
	{Name: "cuMemcpy3DAsync_v2", Func: &api.memcpy3DAsync},
	{Name: "cuMemcpyBatchAsync_v2", Func: &api.memcpyBatchAsync, Optional: true},
	{Name: "cuMemcpyBatchAsync", Func: &api.memcpyBatchAsync12, Optional: true},
	{Name: "cuMemcpyPeerAsync", Func: &api.memcpyPeerAsync},
	{Name: "cuDeviceCanAccessPeer", Func: &api.deviceCanAccessPeer},
	{Name: "cuCtxEnablePeerAccess", Func: &api.ctxEnablePeerAccess},
	{Name: "cuIpcGetMemHandle", Func: &api.ipcGetMemHandle, Optional: true},
	{Name: "cuIpcOpenMemHandle_v2", Func: &api.ipcOpenMemHandle, Optional: true},
	{Name: "cuIpcCloseMemHandle", Func: &api.ipcCloseMemHandle, Optional: true},
	{Name: "cuStreamBatchMemOp_v2", Func: &api.streamBatchMemOp, Optional: true},

	{Name: "cuStreamCreate", Func: &api.streamCreate},
	{Name: "cuStreamDestroy_v2", Func: &api.streamDestroy},
	{Name: "cuStreamSynchronize", Func: &api.streamSynchronize},
	{Name: "cuStreamWaitEvent", Func: &api.streamWaitEvent},
	{Name: "cuEventCreate", Func: &api.eventCreate},
	{Name: "cuEventDestroy_v2", Func: &api.eventDestroy},
	{Name: "cuEventRecord", Func: &api.eventRecord},
	{Name: "cuCtxRecordEvent", Func: &api.ctxRecordEvent, Optional: true},
	{Name: "cuStreamGetCtx", Func: &api.streamGetCtx},
	{Name: "cuEventQuery", Func: &api.eventQuery},
	{Name: "cuEventSynchronize", Func: &api.eventSynchronize},
	{Name: "cuEventElapsedTime", Func: &api.eventElapsedTime},

	{Name: "cuThreadExchangeStreamCaptureMode", Func: &api.threadExchangeStreamCaptureMode, Optional: true},

	{Name: "cuStreamBeginCapture_v2", Func: &api.streamBeginCapture, Optional: true},
	{Name: "cuStreamEndCapture", Func: &api.streamEndCapture, Optional: true},
	{Name: "cuStreamIsCapturing", Func: &api.streamIsCapturing, Optional: true},
	{Name: "cuGraphInstantiateWithFlags", Func: &api.graphInstantiate, Optional: true},
	{Name: "cuGraphUpload", Func: &api.graphUpload, Optional: true},
	{Name: "cuGraphLaunch", Func: &api.graphLaunch, Optional: true},
	{Name: "cuGraphDestroy", Func: &api.graphDestroy, Optional: true},
	{Name: "cuGraphExecDestroy", Func: &api.graphExecDestroy, Optional: true},

	{Name: "cuModuleLoadData", Func: &api.moduleLoadData},
	{Name: "cuModuleUnload", Func: &api.moduleUnload},
	{Name: "cuModuleGetFunction", Func: &api.moduleGetFunction},
	{Name: "cuLaunchKernel", Func: &api.launchKernel},
	{Name: "cuFuncSetAttribute", Func: &api.funcSetAttribute},

	{Name: "cuMemAllocManaged", Func: &api.memAllocManaged, Optional: true},
	{Name: "cuMemPrefetchAsync_v2", Func: &api.memPrefetchAsync, Optional: true},
	{Name: "cuMemAdvise_v2", Func: &api.memAdvise, Optional: true},
	{Name: "cuMemRangeGetAttribute", Func: &api.memRangeGetAttribute, Optional: true},

	{Name: "cuMemAddressReserve", Func: &api.memAddressReserve, Optional: true},
	{Name: "cuMemAddressFree", Func: &api.memAddressFree, Optional: true},
	{Name: "cuMemCreate", Func: &api.memCreate, Optional: true},
	{Name: "cuMemRelease", Func: &api.memRelease, Optional: true},
	{Name: "cuMemMap", Func: &api.memMap, Optional: true},
	{Name: "cuMemUnmap", Func: &api.memUnmap, Optional: true},
	{Name: "cuMemSetAccess", Func: &api.memSetAccess, Optional: true},
	{Name: "cuMemGetAllocationGranularity", Func: &api.memGetAllocationGranularity, Optional: true},

	{Name: "cuMemPoolCreate", Func: &api.memPoolCreate, Optional: true},
	{Name: "cuMemPoolDestroy", Func: &api.memPoolDestroy, Optional: true},
	{Name: "cuMemPoolSetAttribute", Func: &api.memPoolSetAttribute, Optional: true},
	{Name: "cuMemPoolTrimTo", Func: &api.memPoolTrimTo, Optional: true},
	{Name: "cuMemAllocFromPoolAsync", Func: &api.memAllocFromPoolAsync, Optional: true},
	{Name: "cuMemFreeAsync", Func: &api.memFreeAsync, Optional: true},
}

var library = dl.Library{
	Name: "cuda",
	Files: map[string][]string{
		"linux":   {"libcuda.so.1", "libcuda.so"},
		"windows": {"nvcuda.dll"},
	}[runtime.GOOS],
	Symbols: symbols,
}

// words are scratch for results that the driver writes through a pointer. They
// are pooled, so that such a call allocates nothing.
var words = sync.Pool{New: func() any { return new([2]uint64) }}

// Values of the driver's enumerations and flags. abi/abi.c prints them, and
// the sizes and offsets that this package relies on, from the vendor's header;
// abi_test.go compares.
const (
	resultInvalidValue       = 1
	resultOutOfMemory        = 2
	resultNoDevice           = 100
	resultInvalidContext     = 201
	resultInvalidHandle      = 400
	resultContextDestroyed   = 709
	resultUnsupportedPTX     = 222
	resultOperatingSystem    = 304
	resultNotPermitted       = 800
	resultNotReady           = 600
	resultPeerAccessEnabled  = 704
	resultAlreadyRegistered  = 712
	resultNotSupported       = 801
	resultCaptureUnsupported = 900
	resultCaptureWrongThread = 908
	attrMaxPitch             = 11
	attrMultiprocessors      = 16
	attrIntegrated           = 18
	attrCanMapHostMemory     = 19
	attrAsyncEngines         = 40
	attrComputeMajor         = 75
	attrComputeMinor         = 76
	attrManagedMemory        = 83
	attrConcurrentManaged    = 89
	attrVirtualMemory        = 102
	attrMemoryPools          = 115
	pointerMemoryType        = 2
	pointerDeviceOrdinal     = 9
	pointerRangeStart        = 11
	pointerRangeSize         = 12
	memoryTypeHost           = 1
	memoryTypeUnified        = 4
	srcAccessOrderStream     = 1
	hostAllocPortable        = 1
	hostAllocDeviceMap       = 2
	hostAllocWriteCombined   = 4
	hostRegisterPortable     = 1
	hostRegisterDeviceMap    = 2
	streamNonBlocking        = 1
	streamPerThread          = 2
	eventBlockingSync        = 1
	eventDisableTiming       = 2
	captureGlobal            = 0
	captureRelaxed           = 2
	captureNone              = 0
	memAttachGlobal          = 1
	adviseReadMostly         = 1
	unadviseReadMostly       = 2
	advisePreferred          = 3
	unadvisePreferred        = 4
	adviseAccessedBy         = 5
	unadviseAccessedBy       = 6
	rangeReadMostly          = 1
	rangePreferred           = 2
	rangeAccessedBy          = 3
	rangeLastPrefetch        = 4
	hostDevice               = 1<<32 - 1 // -1: the host, where a device is named
	noDevice                 = 1<<32 - 2 // -2
	allocationPinned         = 1
	locationDevice           = 1
	locationHost             = 2
	accessReadWrite          = 3
	granularityMinimum       = 0
	poolReleaseThreshold     = 4
	launchParamBufferPointer = 1
	launchParamBufferSize    = 2
	launchParamEnd           = 0
	ipcLazyPeerAccess        = 1
	memOpWait                = 1
	memOpWrite               = 2
	memOpWaitGEQ             = 0
	funcMaxSharedBytes       = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
)
