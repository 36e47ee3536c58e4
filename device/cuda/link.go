package cuda

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/nvml"
)

// pcieLink asks the management library; without it the link is unknown.
func pcieLink(busID string) device.Link {
	gpu, err := nvml.ByBusID(busID)
	if err != nil {
		return device.Link{}
	}
	l, err := gpu.Link()
	if err != nil {
		return device.Link{}
	}
	return device.Link{Kind: "PCIe", Gen: l.Gen, Width: l.Width, MaxGen: l.MaxGen, MaxWidth: l.MaxWidth}
}
