/* Prints the values that package cuda binds to, from the vendor's header:
 *
 *   cc -I/usr/local/cuda/include -o /tmp/abi abi.c && /tmp/abi > abi.txt
 */
#include <cuda.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, expr) printf("%s %ld\n", name, (long)(expr))

int main(void) {
	VALUE("resultInvalidValue", CUDA_ERROR_INVALID_VALUE);
	VALUE("resultOutOfMemory", CUDA_ERROR_OUT_OF_MEMORY);
	VALUE("resultNoDevice", CUDA_ERROR_NO_DEVICE);
	VALUE("resultInvalidContext", CUDA_ERROR_INVALID_CONTEXT);
	VALUE("resultInvalidHandle", CUDA_ERROR_INVALID_HANDLE);
	VALUE("resultContextDestroyed", CUDA_ERROR_CONTEXT_IS_DESTROYED);
	VALUE("resultUnsupportedPTX", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	VALUE("resultOperatingSystem", CUDA_ERROR_OPERATING_SYSTEM);
	VALUE("resultNotPermitted", CUDA_ERROR_NOT_PERMITTED);
	VALUE("resultNotReady", CUDA_ERROR_NOT_READY);
	VALUE("resultPeerAccessEnabled", CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	VALUE("resultAlreadyRegistered", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	VALUE("resultNotSupported", CUDA_ERROR_NOT_SUPPORTED);
	VALUE("resultCaptureUnsupported", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	VALUE("resultCaptureWrongThread", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	VALUE("attrMaxPitch", CU_DEVICE_ATTRIBUTE_MAX_PITCH);
	VALUE("attrMultiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	VALUE("attrIntegrated", CU_DEVICE_ATTRIBUTE_INTEGRATED);
	VALUE("attrCanMapHostMemory", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
	VALUE("attrAsyncEngines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
	VALUE("attrComputeMajor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	VALUE("attrComputeMinor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	VALUE("attrManagedMemory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
	VALUE("attrConcurrentManaged", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS);
	VALUE("attrVirtualMemory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	VALUE("attrMemoryPools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
	VALUE("pointerMemoryType", CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
	VALUE("pointerDeviceOrdinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
	VALUE("pointerRangeStart", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
	VALUE("pointerRangeSize", CU_POINTER_ATTRIBUTE_RANGE_SIZE);
	VALUE("memoryTypeHost", CU_MEMORYTYPE_HOST);
	VALUE("memoryTypeUnified", CU_MEMORYTYPE_UNIFIED);
	VALUE("srcAccessOrderStream", CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
	VALUE("hostAllocPortable", CU_MEMHOSTALLOC_PORTABLE);
	VALUE("hostAllocDeviceMap", CU_MEMHOSTALLOC_DEVICEMAP);
	VALUE("hostAllocWriteCombined", CU_MEMHOSTALLOC_WRITECOMBINED);
	VALUE("hostRegisterPortable", CU_MEMHOSTREGISTER_PORTABLE);
	VALUE("hostRegisterDeviceMap", CU_MEMHOSTREGISTER_DEVICEMAP);
	VALUE("streamNonBlocking", CU_STREAM_NON_BLOCKING);
	VALUE("streamPerThread", (size_t)CU_STREAM_PER_THREAD);
	VALUE("eventBlockingSync", CU_EVENT_BLOCKING_SYNC);
	VALUE("eventDisableTiming", CU_EVENT_DISABLE_TIMING);
	VALUE("captureGlobal", CU_STREAM_CAPTURE_MODE_GLOBAL);
	VALUE("captureRelaxed", CU_STREAM_CAPTURE_MODE_RELAXED);
	VALUE("captureNone", CU_STREAM_CAPTURE_STATUS_NONE);
	VALUE("memAttachGlobal", CU_MEM_ATTACH_GLOBAL);
	VALUE("adviseReadMostly", CU_MEM_ADVISE_SET_READ_MOSTLY);
	VALUE("unadviseReadMostly", CU_MEM_ADVISE_UNSET_READ_MOSTLY);
	VALUE("advisePreferred", CU_MEM_ADVISE_SET_PREFERRED_LOCATION);
	VALUE("unadvisePreferred", CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION);
	VALUE("adviseAccessedBy", CU_MEM_ADVISE_SET_ACCESSED_BY);
	VALUE("unadviseAccessedBy", CU_MEM_ADVISE_UNSET_ACCESSED_BY);
	VALUE("rangeReadMostly", CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY);
	VALUE("rangePreferred", CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION);
	VALUE("rangeAccessedBy", CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY);
	VALUE("rangeLastPrefetch", CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION);
	VALUE("hostDevice", (unsigned)CU_DEVICE_CPU);
	VALUE("noDevice", (unsigned)CU_DEVICE_INVALID);
	VALUE("allocationPinned", CU_MEM_ALLOCATION_TYPE_PINNED);
	VALUE("locationDevice", CU_MEM_LOCATION_TYPE_DEVICE);
	VALUE("locationHost", CU_MEM_LOCATION_TYPE_HOST);
	VALUE("accessReadWrite", CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	VALUE("granularityMinimum", CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	VALUE("poolReleaseThreshold", CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
	VALUE("launchParamBufferPointer", (size_t)CU_LAUNCH_PARAM_BUFFER_POINTER);
	VALUE("launchParamBufferSize", (size_t)CU_LAUNCH_PARAM_BUFFER_SIZE);
	VALUE("launchParamEnd", (size_t)CU_LAUNCH_PARAM_END);
	VALUE("funcMaxSharedBytes", CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

	VALUE("sizeof(Device.handle)", sizeof(CUdevice));
	VALUE("sizeof(Device.context)", sizeof(CUcontext));
	VALUE("sizeof(device.Ptr)", sizeof(CUdeviceptr));
	VALUE("sizeof(device.Chunk)", sizeof(CUmemGenericAllocationHandle));
	VALUE("sizeof(location)", sizeof(CUmemLocation));
	VALUE("offsetof(location.kind)", offsetof(CUmemLocation, type));
	VALUE("offsetof(location.id)", offsetof(CUmemLocation, id));
	VALUE("sizeof(allocationProp)", sizeof(CUmemAllocationProp));
	VALUE("offsetof(allocationProp.kind)", offsetof(CUmemAllocationProp, type));
	VALUE("offsetof(allocationProp.handleTypes)", offsetof(CUmemAllocationProp, requestedHandleTypes));
	VALUE("offsetof(allocationProp.location)", offsetof(CUmemAllocationProp, location));
	VALUE("offsetof(allocationProp.win32)", offsetof(CUmemAllocationProp, win32HandleMetaData));
	VALUE("offsetof(allocationProp.flags)", offsetof(CUmemAllocationProp, allocFlags));
	VALUE("sizeof(poolProps)", sizeof(CUmemPoolProps));
	VALUE("offsetof(poolProps.kind)", offsetof(CUmemPoolProps, allocType));
	VALUE("offsetof(poolProps.handleTypes)", offsetof(CUmemPoolProps, handleTypes));
	VALUE("offsetof(poolProps.location)", offsetof(CUmemPoolProps, location));
	VALUE("offsetof(poolProps.win32)", offsetof(CUmemPoolProps, win32SecurityAttributes));
	VALUE("offsetof(poolProps.maxBytes)", offsetof(CUmemPoolProps, maxSize));
	VALUE("sizeof(Device.pool)", sizeof(CUmemoryPool));
	VALUE("sizeof(accessDesc)", sizeof(CUmemAccessDesc));
	VALUE("offsetof(accessDesc.location)", offsetof(CUmemAccessDesc, location));
	VALUE("offsetof(accessDesc.flags)", offsetof(CUmemAccessDesc, flags));
	VALUE("sizeof(memcpyAttributes)", sizeof(CUmemcpyAttributes));
	VALUE("offsetof(memcpyAttributes.srcAccessOrder)", offsetof(CUmemcpyAttributes, srcAccessOrder));
	VALUE("offsetof(memcpyAttributes.srcLocation)", offsetof(CUmemcpyAttributes, srcLocHint));
	VALUE("offsetof(memcpyAttributes.dstLocation)", offsetof(CUmemcpyAttributes, dstLocHint));
	VALUE("offsetof(memcpyAttributes.flags)", offsetof(CUmemcpyAttributes, flags));
	VALUE("sizeof(memcpy3D)", sizeof(CUDA_MEMCPY3D));
	VALUE("offsetof(memcpy3D.src.x)", offsetof(CUDA_MEMCPY3D, srcXInBytes));
	VALUE("offsetof(memcpy3D.src.y)", offsetof(CUDA_MEMCPY3D, srcY));
	VALUE("offsetof(memcpy3D.src.z)", offsetof(CUDA_MEMCPY3D, srcZ));
	VALUE("offsetof(memcpy3D.src.level)", offsetof(CUDA_MEMCPY3D, srcLOD));
	VALUE("offsetof(memcpy3D.src.memoryType)", offsetof(CUDA_MEMCPY3D, srcMemoryType));
	VALUE("offsetof(memcpy3D.src.host)", offsetof(CUDA_MEMCPY3D, srcHost));
	VALUE("offsetof(memcpy3D.src.device)", offsetof(CUDA_MEMCPY3D, srcDevice));
	VALUE("offsetof(memcpy3D.src.array)", offsetof(CUDA_MEMCPY3D, srcArray));
	VALUE("offsetof(memcpy3D.src.pitch)", offsetof(CUDA_MEMCPY3D, srcPitch));
	VALUE("offsetof(memcpy3D.src.height)", offsetof(CUDA_MEMCPY3D, srcHeight));
	VALUE("offsetof(memcpy3D.dst.x)", offsetof(CUDA_MEMCPY3D, dstXInBytes));
	VALUE("offsetof(memcpy3D.dst.y)", offsetof(CUDA_MEMCPY3D, dstY));
	VALUE("offsetof(memcpy3D.dst.z)", offsetof(CUDA_MEMCPY3D, dstZ));
	VALUE("offsetof(memcpy3D.dst.level)", offsetof(CUDA_MEMCPY3D, dstLOD));
	VALUE("offsetof(memcpy3D.dst.memoryType)", offsetof(CUDA_MEMCPY3D, dstMemoryType));
	VALUE("offsetof(memcpy3D.dst.host)", offsetof(CUDA_MEMCPY3D, dstHost));
	VALUE("offsetof(memcpy3D.dst.device)", offsetof(CUDA_MEMCPY3D, dstDevice));
	VALUE("offsetof(memcpy3D.dst.array)", offsetof(CUDA_MEMCPY3D, dstArray));
	VALUE("offsetof(memcpy3D.dst.pitch)", offsetof(CUDA_MEMCPY3D, dstPitch));
	VALUE("offsetof(memcpy3D.dst.height)", offsetof(CUDA_MEMCPY3D, dstHeight));
	VALUE("offsetof(memcpy3D.width)", offsetof(CUDA_MEMCPY3D, WidthInBytes));
	VALUE("offsetof(memcpy3D.rows)", offsetof(CUDA_MEMCPY3D, Height));
	VALUE("offsetof(memcpy3D.planes)", offsetof(CUDA_MEMCPY3D, Depth));
	return 0;
}
