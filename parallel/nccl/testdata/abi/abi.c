/* Prints what the binding relies on, from NVIDIA's header of NCCL:
 *
 *   cc -I/usr/local/cuda/include -I.../nvidia/nccl/include -o /tmp/abi abi.c && /tmp/abi > abi.txt
 */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>

#define PRINT(name, value) printf("%s %lld\n", name, (long long)(value))

int main(void) {
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	PRINT("success", ncclSuccess);
	PRINT("invalidArgument", ncclInvalidArgument);
	PRINT("invalidUsage", ncclInvalidUsage);
	PRINT("inProgress", ncclInProgress);
	PRINT("typeI8", ncclInt8);
	PRINT("typeU8", ncclUint8);
	PRINT("typeI32", ncclInt32);
	PRINT("typeU32", ncclUint32);
	PRINT("typeI64", ncclInt64);
	PRINT("typeU64", ncclUint64);
	PRINT("typeF16", ncclFloat16);
	PRINT("typeF32", ncclFloat32);
	PRINT("typeF64", ncclFloat64);
	PRINT("typeBF16", ncclBfloat16);
	PRINT("opSum", ncclSum);
	PRINT("opProd", ncclProd);
	PRINT("opMax", ncclMax);
	PRINT("opMin", ncclMin);
	PRINT("opAvg", ncclAvg);
	PRINT("idBytes", sizeof(ncclUniqueId));
	PRINT("noColor", (unsigned)NCCL_SPLIT_NOCOLOR);
	PRINT("configMagic", config.magic);
	PRINT("configUnset", (unsigned)config.minCTAs);
	PRINT("config.size", offsetof(ncclConfig_t, size));
	PRINT("config.magic", offsetof(ncclConfig_t, magic));
	PRINT("config.version", offsetof(ncclConfig_t, version));
	PRINT("config.blocking", offsetof(ncclConfig_t, blocking));
	PRINT("config.cgaClusterSize", offsetof(ncclConfig_t, cgaClusterSize));
	PRINT("config.minCTAs", offsetof(ncclConfig_t, minCTAs));
	PRINT("config.maxCTAs", offsetof(ncclConfig_t, maxCTAs));
	PRINT("config.netName", offsetof(ncclConfig_t, netName));
	PRINT("config.splitShare", offsetof(ncclConfig_t, splitShare));
	/* Newer headers have more behind these. */
	PRINT("fits(config)", sizeof config >= offsetof(ncclConfig_t, splitShare) + sizeof config.splitShare);
	PRINT("othersUnset", config.blocking == config.minCTAs && config.cgaClusterSize == config.minCTAs &&
		config.maxCTAs == config.minCTAs && config.splitShare == config.minCTAs && !config.netName);
	return 0;
}
