package doctor

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/units"
)

// gpuChecks are about the GPU itself and who else uses it.
var gpuChecks = []Check{
	{Name: "gpu-memory", Family: "driver", Asks: "is the GPU's memory free?", gpu: true, run: checkGPUMemory},
	{Name: "gpu-processes", Family: "driver", Asks: "do other processes use the GPU?", gpu: true, needs: []string{"nvml"}, run: checkGPUProcesses},
	{Name: "gpu-instances", Family: "driver", Asks: "is the GPU divided into instances (MIG)?", gpu: true, needs: []string{"nvml"}, run: checkMIG},
	{Name: "throttling", Family: "driver", Asks: "does heat or power hold the clocks back?", gpu: true, needs: []string{"copies"}, run: checkThrottling},
	{Name: "peer-access", Family: "driver", Asks: "do GPUs reach each other's memory?", gpu: true, run: checkPeers},
}

func checkGPUMemory(m *machine) Result {
	memory := m.device.facts.Memory
	measured := fmt.Sprintf("%s of %s free", units.Bytes(memory.FreeBytes), units.Bytes(memory.TotalBytes))
	const why = "What others hold is missing: a pool that cannot grow spills to the host, and comes back over the link."
	if memory.FreeBytes < memory.TotalBytes/2 {
		return warn(measured, why, "`nvidia-smi` lists who holds it. Stop them, or take another GPU: CUDA_VISIBLE_DEVICES=1.")
	}
	return ok(measured, why)
}

func checkGPUProcesses(m *machine) Result {
	f := m.nvml.facts
	if f.Processes.Reason != "" {
		return skipped("%s", f.Processes.Reason)
	}
	const why = "Whoever shares a GPU takes turns on its multiprocessors and shares its link."
	const remedy = "`nvidia-smi` lists them. Stop them, or take another GPU: CUDA_VISIBLE_DEVICES=1."
	var names []string
	var bytes int64
	n := 0
	for _, p := range f.Processes.Value {
		if p.Graphics && p.UsedBytes < gib { // a desktop
			continue
		}
		if n++; n <= 3 {
			names = append(names, m.process(p))
		}
		bytes += max(p.UsedBytes, 0)
	}
	if n > len(names) {
		names = append(names, fmt.Sprintf("%d more", n-len(names)))
	}
	switch {
	case n > 0:
		return warn(fmt.Sprintf("%s with %s: %s", units.Count(n, "process"), units.Bytes(bytes), strings.Join(names, ", ")), why, remedy)
	case f.Utilisation.Value > 0.05:
		return warn(fmt.Sprintf("none is seen, but the GPU is %s busy", units.Percent(f.Utilisation.Value)), why,
			"They are outside this container, or hidden from it. On the host: `nvidia-smi`.")
	}
	return ok("none", why)
}

// process names a process that uses the GPU, as far as it can be seen from here.
func (m *machine) process(p nvml.Process) string {
	if name := m.text(fmt.Sprintf("/proc/%d/comm", p.PID)); name != "" {
		return fmt.Sprintf("%s (%d)", oneLine(name), p.PID)
	}
	return fmt.Sprint(p.PID)
}

func checkMIG(m *machine) Result {
	f := m.nvml.facts.MIG
	const why = "Instances share one link and its copy engines: all together get what one GPU would."
	switch {
	case f.Reason != "":
		return skipped("%s", f.Reason)
	case f.Value:
		return warn("divided (MIG is on)", why, "If nobody needs the instances: `sudo nvidia-smi -mig 0`, with nobody on the GPU.")
	}
	return ok("not divided (MIG is off)", why)
}

// Reasons to lower the clocks that are a fault of the machine, and those that are
// worth knowing.
const (
	faults   = nvml.Slowdown | nvml.HardThermal | nvml.PowerBrake
	troubles = nvml.SoftThermal | nvml.SyncBoost | nvml.Settings
)

func checkThrottling(m *machine) Result {
	f := m.copies.facts.Loaded
	if f.Reason != "" {
		return skipped("%s", f.Reason)
	}
	r, c := f.Value.Reasons, f.Value.Clocks
	clocks := fmt.Sprintf("%d of %d MHz", c.SM, c.MaxSM)
	why := "Kernels slow down with the clocks: the multiprocessors run at " + clocks + "."
	switch {
	case r&faults != 0:
		return fail("held back by "+(r&^nvml.Idle).String(), why,
			"`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` says more. Check fans and air flow, the power cables and the supply.")
	case r&troubles != 0:
		return warn("held back by "+(r&^nvml.Idle).String(), why,
			"Of heat: look at fans and room, `nvidia-smi -q -d TEMPERATURE`. Of fixed clocks: `sudo nvidia-smi --reset-gpu-clocks` and `--reset-applications-clocks`.")
	case r&nvml.PowerCap != 0:
		return ok(clocks+", at the power limit, as busy GPUs are", why)
	}
	return ok("none: "+clocks, why)
}

func checkPeers(m *machine) Result {
	var without []string
	peers := m.device.facts.Peers
	for _, p := range peers {
		if !p.Access {
			without = append(without, p.ID)
		}
	}
	const why = "Without peer access a copy between two GPUs passes through host memory, over both links one after the other."
	switch {
	case len(peers) == 0:
		return skipped("there is one GPU")
	case len(without) > 0:
		return warn(fmt.Sprintf("%s does not reach %s", m.device.facts.Info.ID, strings.Join(without, ", ")), why,
			"`nvidia-smi topo -p2p r` shows why. Switch ACS off for the PCIe switches (BIOS), and boot with iommu=pt. GeForce cards have no peer access over PCIe.")
	}
	return ok(fmt.Sprintf("yes, of %s", units.Count(len(peers)+1, "GPU")), why)
}
