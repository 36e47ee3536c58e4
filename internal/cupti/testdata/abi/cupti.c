/* Prints the values that package cupti binds to, from the vendor's header:
 *
 *   cc -I/usr/local/cuda/include -I/usr/local/cuda/extras/CUPTI/include -o /tmp/abi cupti.c && /tmp/abi > cupti.txt
 *
 * The records are those of CUDA 13.0. What is printed is the same for those of CUDA 12.
 */
#include <cupti.h>
#include <stddef.h>
#include <stdio.h>

#if CUPTI_API_VERSION >= 130200
typedef CUpti_ActivityKernel11 kernel;
typedef CUpti_ActivityMemcpy7 copy;
typedef CUpti_ActivityMemset5 set;
#elif CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel;
typedef CUpti_ActivityMemcpy6 copy;
typedef CUpti_ActivityMemset4 set;
#else
typedef CUpti_ActivityKernel9 kernel;
typedef CUpti_ActivityMemcpy5 copy;
typedef CUpti_ActivityMemset4 set;
#endif
typedef CUpti_ActivityMemcpyPtoP4 peer;

#define VALUE(name, expr) printf("%s %lld\n", name, (long long)(expr))
#define FIELD(record, field) VALUE(#record "." #field, offsetof(record, field))

int main(void) {
	VALUE("kindMemcpy", CUPTI_ACTIVITY_KIND_MEMCPY);
	VALUE("kindMemset", CUPTI_ACTIVITY_KIND_MEMSET);
	VALUE("kindKernel", CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	VALUE("kindMemcpy2", CUPTI_ACTIVITY_KIND_MEMCPY2);
	VALUE("copyH2D", CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
	VALUE("copyD2H", CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
	VALUE("copyH2A", CUPTI_ACTIVITY_MEMCPY_KIND_HTOA);
	VALUE("copyA2H", CUPTI_ACTIVITY_MEMCPY_KIND_ATOH);
	VALUE("copyH2H", CUPTI_ACTIVITY_MEMCPY_KIND_HTOH);
	VALUE("copyP2P", CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
	VALUE("codeLimitReached", CUPTI_ERROR_MAX_LIMIT_REACHED);
	VALUE("codeMultipleSubscribers", CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	VALUE("forced", CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	VALUE("sizeof(kind)", sizeof(CUpti_ActivityKind));
	FIELD(kernel, start);
	FIELD(kernel, end);
	FIELD(kernel, deviceId);
	FIELD(kernel, streamId);
	FIELD(kernel, name);
	FIELD(copy, copyKind);
	FIELD(copy, bytes);
	FIELD(copy, start);
	FIELD(copy, end);
	FIELD(copy, deviceId);
	FIELD(copy, streamId);
	FIELD(peer, bytes);
	FIELD(peer, start);
	FIELD(peer, end);
	FIELD(peer, deviceId);
	FIELD(peer, streamId);
	FIELD(set, bytes);
	FIELD(set, start);
	FIELD(set, end);
	FIELD(set, deviceId);
	FIELD(set, streamId);
	return 0;
}
