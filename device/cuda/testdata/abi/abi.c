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
	VALUE("resultUnsupportedPTX", CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	VALUE("resultOperatingSystem", CUDA_ERROR_OPERATING_SYSTEM);
	VALUE("resultNotPermitted", CUDA_ERROR_NOT_PERMITTED);
	VALUE("resultNotReady", CUDA_ERROR_NOT_READY);
	VALUE("resultAlreadyRegistered", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	VALUE("resultNotSupported", CUDA_ERROR_NOT_SUPPORTED);
	VALUE("attrMultiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	VALUE("attrIntegrated", CU_DEVICE_ATTRIBUTE_INTEGRATED);
	VALUE("attrCanMapHostMemory", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
	VALUE("attrAsyncEngines", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
	VALUE("attrComputeMajor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	VALUE("attrComputeMinor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
	VALUE("attrManagedMemory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
	VALUE("attrVirtualMemory", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	VALUE("pointerMemoryType", CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
	VALUE("memoryTypeHost", CU_MEMORYTYPE_HOST);
	VALUE("hostAllocPortable", CU_MEMHOSTALLOC_PORTABLE);
	VALUE("hostAllocDeviceMap", CU_MEMHOSTALLOC_DEVICEMAP);
	VALUE("hostAllocWriteCombined", CU_MEMHOSTALLOC_WRITECOMBINED);
	VALUE("hostRegisterPortable", CU_MEMHOSTREGISTER_PORTABLE);
	VALUE("hostRegisterDeviceMap", CU_MEMHOSTREGISTER_DEVICEMAP);
	VALUE("streamNonBlocking", CU_STREAM_NON_BLOCKING);
	VALUE("eventBlockingSync", CU_EVENT_BLOCKING_SYNC);
	VALUE("eventDisableTiming", CU_EVENT_DISABLE_TIMING);
	VALUE("memAttachGlobal", CU_MEM_ATTACH_GLOBAL);
	VALUE("allocationPinned", CU_MEM_ALLOCATION_TYPE_PINNED);
	VALUE("locationDevice", CU_MEM_LOCATION_TYPE_DEVICE);
	VALUE("locationHost", CU_MEM_LOCATION_TYPE_HOST);
	VALUE("accessReadWrite", CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	VALUE("granularityMinimum", CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	VALUE("launchParamBufferPointer", (size_t)CU_LAUNCH_PARAM_BUFFER_POINTER);
	VALUE("launchParamBufferSize", (size_t)CU_LAUNCH_PARAM_BUFFER_SIZE);
	VALUE("launchParamEnd", (size_t)CU_LAUNCH_PARAM_END);

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
	VALUE("sizeof(accessDesc)", sizeof(CUmemAccessDesc));
	VALUE("offsetof(accessDesc.location)", offsetof(CUmemAccessDesc, location));
	VALUE("offsetof(accessDesc.flags)", offsetof(CUmemAccessDesc, flags));
	return 0;
}
