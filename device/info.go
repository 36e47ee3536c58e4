package device

import "fmt"

// Info describes a device. Fields that a backend cannot know are zero.
type Info struct {
	ID                string // name that [Open] takes, such as "cuda:0"
	Backend           string // "cuda" or "host"
	Name              string // the vendor's name for the device
	UUID              string
	TotalBytes        int64
	ComputeCapability [2]int // CUDA's major and minor; zero elsewhere
	Multiprocessors   int
	CopyEngines       int // copies that can run beside each other and beside kernels
	PCIBusID          string
	Link              Link
	Integrated        bool   // device memory is host memory: there is no link, and staging cannot pay
	DriverVersion     string // version of the CUDA driver API, such as "13.0"
	NUMANode          int    // of the device's root port; -1 where it is unknown or there is one node
}

// Link is the connection between host and device.
type Link struct {
	Kind     string // "PCIe"; empty when unknown or when there is no link
	Gen      int    // current generation; an idle device may show a lower one than under load
	Width    int    // current lanes
	MaxGen   int    // highest generation that device and slot allow
	MaxWidth int
}

// String formats the link as people write it, "PCIe 5.0 x16".
func (l Link) String() string {
	if l.Kind == "" {
		return ""
	}
	return fmt.Sprintf("%s %d.0 x%d", l.Kind, l.MaxGen, l.MaxWidth)
}

// BytesPerSecond is the rate of the link in one direction on the wire, after
// line coding and before packet headers: generation 3 and 4 use 128b/130b, 5
// the same, 6 sends flits of 242 payload bytes in 256. Real copies reach 85 to
// 90 % of it. It is zero when the link is unknown.
func (l Link) BytesPerSecond() float64 {
	perLane := map[int]float64{ // GT/s x coding / 8
		1: 2.5e9 * 0.8 / 8,
		2: 5e9 * 0.8 / 8,
		3: 8e9 * 128 / 130 / 8,
		4: 16e9 * 128 / 130 / 8,
		5: 32e9 * 128 / 130 / 8,
		6: 64e9 * 242 / 256 / 8,
	}
	return perLane[l.MaxGen] * float64(l.MaxWidth)
}
