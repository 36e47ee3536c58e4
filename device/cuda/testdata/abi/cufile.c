/* Prints the values that the binding of cuFile uses, from the vendor's header:
 *
 *   cc -I/usr/local/cuda/include -o /tmp/abi cufile.c && /tmp/abi > cufile.txt
 */
#include <cuda.h>
#include <cufile.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, expr) printf("%s %ld\n", name, (long)(expr))

int main(void) {
	VALUE("fileHandleFD", CU_FILE_HANDLE_TYPE_OPAQUE_FD);
	VALUE("fileNVMeBit", CU_FILE_NVME_SUPPORTED);
	VALUE("fileNVMeP2PBit", CU_FILE_NVME_P2P_SUPPORTED);
	VALUE("sizeof(result)", sizeof(CUfileError_t));
	VALUE("offsetof(result.code)", offsetof(CUfileError_t, err));
	VALUE("offsetof(result.driver)", offsetof(CUfileError_t, cu_err));
	VALUE("sizeof(movedFile.handle)", sizeof(CUfileHandle_t));
	VALUE("sizeof(fileDescr)", sizeof(CUfileDescr_t));
	VALUE("offsetof(fileDescr.kind)", offsetof(CUfileDescr_t, type));
	VALUE("offsetof(fileDescr.handle)", offsetof(CUfileDescr_t, handle));
	VALUE("offsetof(fileDescr.handle.fd)", offsetof(CUfileDescr_t, handle.fd));
	VALUE("offsetof(fileDescr.ops)", offsetof(CUfileDescr_t, fs_ops));
	VALUE("sizeof(fileProps)", sizeof(CUfileDrvProps_t));
	VALUE("offsetof(fileProps.nvfs)", offsetof(CUfileDrvProps_t, nvfs));
	VALUE("offsetof(fileProps.nvfs.statusFlags)", offsetof(CUfileDrvProps_t, nvfs.dstatusflags));
	return 0;
}
