/* Prints the values that the binding is written with, from the vendor's header:
 *
 *   cc -I/usr/local/cuda/include -o /tmp/abi abi.c && /tmp/abi > abi.txt
 */
#include <nvjpeg.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, expr) printf("%s %ld\n", name, (long)(expr))

int main(void) {
	VALUE("statusInvalidParameter", NVJPEG_STATUS_INVALID_PARAMETER);
	VALUE("statusBadJPEG", NVJPEG_STATUS_BAD_JPEG);
	VALUE("statusNotSupported", NVJPEG_STATUS_JPEG_NOT_SUPPORTED);
	VALUE("statusAllocator", NVJPEG_STATUS_ALLOCATOR_FAILURE);
	VALUE("statusArchMismatch", NVJPEG_STATUS_ARCH_MISMATCH);
	VALUE("statusNotImplemented", NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED);
	VALUE("statusIncomplete", NVJPEG_STATUS_INCOMPLETE_BITSTREAM);
	VALUE("backendGPUHybrid", NVJPEG_BACKEND_GPU_HYBRID);
	VALUE("backendHardware", NVJPEG_BACKEND_HARDWARE);
	VALUE("outputRGBI", NVJPEG_OUTPUT_RGBI);
	VALUE("flagInterpolate", NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION);
	VALUE("propertyMajor", MAJOR_VERSION);
	VALUE("propertyMinor", MINOR_VERSION);
	VALUE("sizeof(Decoder.handle)", sizeof(nvjpegHandle_t));
	VALUE("sizeof(Decoder.state)", sizeof(nvjpegJpegState_t));
	VALUE("sizeof(batch.lengths)", sizeof(size_t));
	VALUE("sizeof(nvImage)", sizeof(nvjpegImage_t));
	VALUE("offsetof(nvImage.channel)", offsetof(nvjpegImage_t, channel));
	VALUE("offsetof(nvImage.pitch)", offsetof(nvjpegImage_t, pitch));
	return 0;
}
