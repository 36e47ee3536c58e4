/* Prints the values that package nvtx binds to, from the vendor's headers:
 *
 *   cc -I/usr/local/cuda/include -o /tmp/abi nvtx.c && /tmp/abi > nvtx.txt
 */
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, expr) printf("%s %lld\n", name, (long long)(expr))

int main(void) {
	VALUE("version", NVTX_VERSION);
	VALUE("messageASCII", NVTX_MESSAGE_TYPE_ASCII);
	VALUE("tableCallbacks", NVTX_ETID_CALLBACKS);
	VALUE("tableVersion", NVTX_ETID_VERSIONINFO);
	VALUE("moduleCore", NVTX_CB_MODULE_CORE);
	VALUE("moduleCUDA", NVTX_CB_MODULE_CUDA);
	VALUE("moduleOpenCL", NVTX_CB_MODULE_OPENCL);
	VALUE("moduleCUDART", NVTX_CB_MODULE_CUDART);
	VALUE("moduleCore2", NVTX_CB_MODULE_CORE2);
	VALUE("moduleSync", NVTX_CB_MODULE_SYNC);
	VALUE("domainRangeStartEx", NVTX_CBID_CORE2_DomainRangeStartEx);
	VALUE("domainRangeEnd", NVTX_CBID_CORE2_DomainRangeEnd);
	VALUE("domainCreateA", NVTX_CBID_CORE2_DomainCreateA);
	VALUE("functions[moduleCore]", NVTX_CBID_CORE_SIZE);
	VALUE("functions[moduleCUDA]", NVTX_CBID_CUDA_SIZE);
	VALUE("functions[moduleOpenCL]", NVTX_CBID_OPENCL_SIZE);
	VALUE("functions[moduleCUDART]", NVTX_CBID_CUDART_SIZE);
	VALUE("functions[moduleCore2]", NVTX_CBID_CORE2_SIZE);
	VALUE("functions[moduleSync]", NVTX_CBID_SYNC_SIZE);
	VALUE("sizeof(attributes)", sizeof(nvtxEventAttributes_t));
	VALUE("offsetof(attributes.size)", offsetof(nvtxEventAttributes_t, size));
	VALUE("offsetof(attributes.category)", offsetof(nvtxEventAttributes_t, category));
	VALUE("offsetof(attributes.colorType)", offsetof(nvtxEventAttributes_t, colorType));
	VALUE("offsetof(attributes.payloadType)", offsetof(nvtxEventAttributes_t, payloadType));
	VALUE("offsetof(attributes.payload)", offsetof(nvtxEventAttributes_t, payload));
	VALUE("offsetof(attributes.messageType)", offsetof(nvtxEventAttributes_t, messageType));
	VALUE("offsetof(attributes.message)", offsetof(nvtxEventAttributes_t, message));
	VALUE("sizeof(callbacksTable)", sizeof(NvtxExportTableCallbacks));
	VALUE("offsetof(callbacksTable.getTable)", offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable));
	VALUE("sizeof(versionTable)", sizeof(NvtxExportTableVersionInfo));
	VALUE("offsetof(versionTable.version)", offsetof(NvtxExportTableVersionInfo, version));
	VALUE("offsetof(versionTable.setVersion)", offsetof(NvtxExportTableVersionInfo, SetInjectionNvtxVersion));
	return 0;
}
