package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/units"
)

// placementChecks are about what lies between the GPU and the host's memory.
var placementChecks = []Check{
	{Name: "numa", Family: "link", Asks: "does this process run near the GPU?", needs: []string{"device"}, run: checkNUMA},
	{Name: "iommu", Family: "link", Asks: "does an IOMMU translate the GPU's addresses?", gpu: true, run: checkIOMMU},
	{Name: "bounce-buffers", Family: "link", Asks: "are copies of devices forced through bounce buffers (swiotlb)?", run: checkBounce},
}

func checkNUMA(m *machine) Result {
	nodes := m.nodes()
	if len(nodes) == 0 {
		return skipped("the system does not tell its memory nodes")
	}
	if len(nodes) == 1 {
		return ok("one node", "Where memory is all one, nothing can be far.")
	}
	if !m.hasGPU() {
		return m.noGPU()
	}
	gpu := m.device.facts.Info.NUMANode
	here, near := 0, 0
	var on []string
	var home *numa.Node
	for i, n := range nodes {
		here += len(n.CPUs)
		if len(n.CPUs) > 0 {
			on = append(on, fmt.Sprint(n.ID))
		}
		if n.ID == gpu {
			home, near = &nodes[i], len(n.CPUs)
		}
	}
	why := "Copies from another node cross the link between the sockets, which is slower and shared."
	if home == nil {
		return warn(fmt.Sprintf("%s, and the GPU's is unknown", units.Count(len(nodes), "node")), why,
			"`nvidia-smi topo -m` may know it. Give a virtual machine its host's topology (vNUMA); in the BIOS, switch NUMA on.")
	}
	measured := fmt.Sprintf("GPU on node %d; this process may use %d of its processors, %d in all, on node %s", gpu, near, here, strings.Join(on, ", "))
	if near == 0 {
		return warn(measured, why, fmt.Sprintf("`numactl --cpunodebind=%d --membind=%d COMMAND`, or give the container processors of node %d (--cpuset-cpus, --cpuset-mems).", gpu, gpu, gpu))
	}
	return ok(measured, why)
}

func checkIOMMU(m *machine) Result {
	if m.goos != "linux" {
		return skipped("only Linux tells")
	}
	id := strings.ToLower(m.device.facts.Info.PCIBusID)
	if id == "" || path.Base(id) != id {
		return skipped("the GPU has no address on the PCI bus")
	}
	const why = "An IOMMU that translates makes pinning slower, and leads copies between GPUs through the root complex."
	kind := m.text("/sys/bus/pci/devices/" + id + "/iommu_group/type")
	switch {
	case kind == "identity":
		return ok("passes addresses through", why)
	case strings.HasPrefix(kind, "DMA"):
		return warn("translates ("+kind+")", why, "Boot with iommu=pt, unless GPUs are handed to virtual machines: addresses are then passed through.")
	case kind != "":
		return skipped("it is of an unknown kind, %s", kind)
	}
	if units, err := fs.ReadDir(m.root, "sys/class/iommu"); err == nil && len(units) > 0 {
		return skipped("there is one, but not for this GPU as far as can be seen")
	}
	if m.cpuFlag("hypervisor") {
		return ok("none in this virtual machine", why)
	}
	return ok("none", why)
}

func checkBounce(m *machine) Result {
	if m.goos != "linux" {
		return skipped("only Linux tells")
	}
	const why = "With bounce buffers every byte is copied once more by a processor, and they run out under load."
	guest := ""
	for _, f := range []struct{ flag, name string }{{"tdx_guest", "Intel TDX"}, {"sev_snp", "AMD SEV-SNP"}, {"sev", "AMD SEV"}} {
		// On a host, AMD's flags only say what the processor could do.
		if m.cpuFlag(f.flag) && (f.flag == "tdx_guest" || m.cpuFlag("hypervisor")) {
			guest = f.name
			break
		}
	}
	value, _ := m.option("swiotlb")
	used, seen := m.number("/sys/kernel/debug/swiotlb/io_tlb_used")
	switch {
	case strings.Contains(value, "noforce"): // before force, which it contains
		return ok("switched off (swiotlb=noforce)", why)
	case strings.Contains(value, "force"):
		return warn("forced (swiotlb="+value+")", why, "Take swiotlb=force out of the kernel's command line, and boot.")
	case guest != "":
		return warn("a confidential guest ("+guest+")", why, "If nothing here has to be confidential, use a machine without "+guest+". Else make the buffers larger: swiotlb=524288 on the kernel's command line is 1 GiB.")
	case seen && used > 0:
		return warn(fmt.Sprintf("%s in use", units.Count(used, "slot")), why, "`sudo dmesg | grep -i swiotlb` says for which device. An IOMMU in pass-through mode does without them for 64-bit devices: boot with iommu=pt.")
	}
	return ok("not forced", why)
}
