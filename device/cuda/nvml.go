package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// nvml is the part of the management library that tells about the PCIe link.
var nvml struct {
	initialise, deviceByBusID            dl.Func
	currGen, currWidth, maxGen, maxWidth dl.Func
}

func init() {
	dl.Register(dl.Optional{Name: "NVML", Use: "speed of the PCIe link", Open: openNVML})
}

// openNVML loads and initialises NVML once; without it the link is unknown.
var openNVML = sync.OnceValues(func() (file string, err error) {
	file, err = dl.Open(dl.Library{
		Name: "nvml",
		Files: map[string][]string{
			"linux":   {"libnvidia-ml.so.1"},
			"windows": {"nvml.dll"},
		}[runtime.GOOS],
		Symbols: []dl.Symbol{
			{Name: "nvmlInit_v2", Func: &nvml.initialise},
			{Name: "nvmlDeviceGetHandleByPciBusId_v2", Func: &nvml.deviceByBusID},
			{Name: "nvmlDeviceGetCurrPcieLinkGeneration", Func: &nvml.currGen},
			{Name: "nvmlDeviceGetCurrPcieLinkWidth", Func: &nvml.currWidth},
			{Name: "nvmlDeviceGetMaxPcieLinkGeneration", Func: &nvml.maxGen},
			{Name: "nvmlDeviceGetMaxPcieLinkWidth", Func: &nvml.maxWidth},
		},
	})
	if err != nil {
		return "", err
	}
	if code := nvml.initialise.Call(); code != 0 {
		return "", fmt.Errorf("cuda: nvmlInit_v2 failed: code %d", code)
	}
	return file, nil
})

func pcieLink(busID string) device.Link {
	if _, err := openNVML(); err != nil {
		return device.Link{}
	}
	var handle uintptr
	if nvml.deviceByBusID.Call(uintptr(unsafe.Pointer(dl.CString(busID))), uintptr(unsafe.Pointer(&handle))) != 0 {
		return device.Link{}
	}
	get := func(f dl.Func) int {
		var v uint32
		if f.Call(handle, uintptr(unsafe.Pointer(&v))) != 0 {
			return 0
		}
		return int(v)
	}
	link := device.Link{
		Kind: "PCIe", Gen: get(nvml.currGen), Width: get(nvml.currWidth),
		MaxGen: get(nvml.maxGen), MaxWidth: get(nvml.maxWidth),
	}
	if link.MaxGen == 0 || link.MaxWidth == 0 {
		return device.Link{}
	}
	return link
}
