/* Prints the values that package nvml binds to, from the vendor's header:
 *
 *   cc -I/usr/local/cuda/include -o /tmp/abi nvml.c && /tmp/abi > nvml.txt
 */
#include <nvml.h>
#include <stddef.h>
#include <stdio.h>

#define VALUE(name, expr) printf("%s %lld\n", name, (long long)(expr))

int main(void) {
	VALUE("codeUninitialised", NVML_ERROR_UNINITIALIZED);
	VALUE("codeNotSupported", NVML_ERROR_NOT_SUPPORTED);
	VALUE("codeNoPermission", NVML_ERROR_NO_PERMISSION);
	VALUE("codeNotFound", NVML_ERROR_NOT_FOUND);
	VALUE("codeInsufficientSize", NVML_ERROR_INSUFFICIENT_SIZE);
	VALUE("codeNoDriver", NVML_ERROR_DRIVER_NOT_LOADED);
	VALUE("codeNoFunction", NVML_ERROR_FUNCTION_NOT_FOUND);
	VALUE("codeLost", NVML_ERROR_GPU_IS_LOST);
	VALUE("codeResetRequired", NVML_ERROR_RESET_REQUIRED);
	VALUE("codeOperatingSystem", NVML_ERROR_OPERATING_SYSTEM);
	VALUE("codeMismatch", NVML_ERROR_LIB_RM_VERSION_MISMATCH);
	VALUE("driverVersionBytes", NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
	VALUE("nameBytes", NVML_DEVICE_NAME_V2_BUFFER_SIZE);
	VALUE("uuidBytes", NVML_DEVICE_UUID_V2_BUFFER_SIZE);
	VALUE("sent", NVML_PCIE_UTIL_TX_BYTES);
	VALUE("received", NVML_PCIE_UTIL_RX_BYTES);
	VALUE("clockSM", NVML_CLOCK_SM);
	VALUE("clockMemory", NVML_CLOCK_MEM);
	VALUE("temperatureGPU", NVML_TEMPERATURE_GPU);
	VALUE("confidentialOn", NVML_CC_SYSTEM_FEATURE_ENABLED);
	VALUE("persistent", NVML_FEATURE_ENABLED);
	VALUE("divided", NVML_DEVICE_MIG_ENABLE);
	VALUE("Idle", nvmlClocksThrottleReasonGpuIdle);
	VALUE("Settings", nvmlClocksThrottleReasonApplicationsClocksSetting);
	VALUE("PowerCap", nvmlClocksThrottleReasonSwPowerCap);
	VALUE("Slowdown", nvmlClocksThrottleReasonHwSlowdown);
	VALUE("SyncBoost", nvmlClocksThrottleReasonSyncBoost);
	VALUE("SoftThermal", nvmlClocksThrottleReasonSwThermalSlowdown);
	VALUE("HardThermal", nvmlClocksThrottleReasonHwThermalSlowdown);
	VALUE("PowerBrake", nvmlClocksThrottleReasonHwPowerBrakeSlowdown);
	VALUE("DisplayClocks", nvmlClocksThrottleReasonDisplayClockSetting);

	VALUE("sizeof(Device.handle)", sizeof(nvmlDevice_t));
	VALUE("sizeof(number)", sizeof(unsigned int));
	VALUE("sizeof(mode)", sizeof(nvmlEnableState_t));
	VALUE("sizeof(Reasons)", sizeof(unsigned long long));
	VALUE("sizeof(confidentialState)", sizeof(nvmlConfComputeSystemState_t));
	VALUE("offsetof(confidentialState.feature)", offsetof(nvmlConfComputeSystemState_t, ccFeature));
	VALUE("sizeof(utilisation)", sizeof(nvmlUtilization_t));
	VALUE("offsetof(utilisation.gpu)", offsetof(nvmlUtilization_t, gpu));
	VALUE("offsetof(utilisation.memory)", offsetof(nvmlUtilization_t, memory));
	VALUE("sizeof(memory)", sizeof(nvmlMemory_t));
	VALUE("offsetof(memory.total)", offsetof(nvmlMemory_t, total));
	VALUE("offsetof(memory.free)", offsetof(nvmlMemory_t, free));
	VALUE("offsetof(memory.used)", offsetof(nvmlMemory_t, used));
	VALUE("sizeof(processInfo)", sizeof(nvmlProcessInfo_t));
	VALUE("offsetof(processInfo.pid)", offsetof(nvmlProcessInfo_t, pid));
	VALUE("offsetof(processInfo.used)", offsetof(nvmlProcessInfo_t, usedGpuMemory));
	VALUE("offsetof(processInfo.gpuInstanceID)", offsetof(nvmlProcessInfo_t, gpuInstanceId));
	VALUE("offsetof(processInfo.computeInstanceID)", offsetof(nvmlProcessInfo_t, computeInstanceId));
	VALUE("sizeof(processSample)", sizeof(nvmlProcessUtilizationSample_t));
	VALUE("offsetof(processSample.pid)", offsetof(nvmlProcessUtilizationSample_t, pid));
	VALUE("offsetof(processSample.time)", offsetof(nvmlProcessUtilizationSample_t, timeStamp));
	VALUE("offsetof(processSample.sm)", offsetof(nvmlProcessUtilizationSample_t, smUtil));
	VALUE("offsetof(processSample.memory)", offsetof(nvmlProcessUtilizationSample_t, memUtil));
	return 0;
}
