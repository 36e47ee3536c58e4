package doctor

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// memoryChecks are about the host's memory, and what of it may be pinned.
var memoryChecks = []Check{
	{Name: "host-memory", Family: "memory", Asks: "how much memory may this process still use?", run: checkHostMemory},
	{Name: "memory-limit", Family: "memory", Asks: "does a container limit the memory?", run: checkMemoryLimit},
	{Name: "memlock", Family: "memory", Asks: "may this process pin memory?", needs: []string{"device", "copies"}, run: checkMemlock},
	{Name: "pin-cost", Family: "memory", Asks: "how long does pinning take?", needs: []string{"copies"}, run: checkPinCost},
	{Name: "huge-pages", Family: "memory", Asks: "are there transparent huge pages?", run: checkHugePages},
	{Name: "shared-memory", Family: "memory", Asks: "is /dev/shm large enough?", run: checkShm},
	{Name: "swap", Family: "memory", Asks: "is memory swapped out?", run: checkSwap},
	{Name: "overcommit", Family: "memory", Asks: "may address space be reserved?", run: checkOvercommit},
}

const gib = 1 << 30

// pinRemedy is how to raise the limit of locked memory.
const pinRemedy = "`ulimit -l unlimited` if that is allowed; a line `* - memlock unlimited` in /etc/security/limits.conf; `docker run --ulimit memlock=-1`, or --cap-add IPC_LOCK; LimitMEMLOCK=infinity in a systemd unit."

func checkHostMemory(m *machine) Result {
	available, limit := sysmem.Of(m.root)
	if limit == 0 {
		return skipped("the system does not tell")
	}
	measured := fmt.Sprintf("%s of %s available", units.Bytes(available), units.Bytes(limit))
	why := fmt.Sprintf("Pools of pinned memory take a quarter of what is available, %s; the page cache that feeds them has to fit beside.", units.Bytes(available/4))
	const remedy = "Stop what holds memory (`ps aux --sort=-rss | head`), or take a machine or a container with more."
	switch {
	case available < 256<<20:
		return fail(measured, why, remedy)
	case available < 2*gib || available < limit/8:
		return warn(measured, why, remedy)
	}
	return ok(measured, why)
}

func checkMemoryLimit(m *machine) Result {
	_, limit := sysmem.Of(m.root)
	total := m.meminfo()["MemTotal"]
	if limit == 0 || total == 0 {
		return skipped("the system does not tell")
	}
	if limit >= total {
		return ok("none", "Past the limit of its control group a process is killed, not slowed.")
	}
	measured := fmt.Sprintf("%s of the machine's %s", units.Bytes(limit), units.Bytes(total))
	const why = "Past the limit of its control group a process is killed, not slowed; pinned memory and the page cache of its files count."
	if limit < 4*gib {
		return warn(measured, why, "Raise it: `docker run --memory 16g`, resources.limits.memory in Kubernetes, MemoryMax= in a systemd unit. Or bound the pools: --pin-budget.")
	}
	return ok(measured, why)
}

func checkMemlock(m *machine) Result {
	soft, _, known := m.limit("self", "Max locked memory")
	if !known {
		return skipped("the system does not tell")
	}
	measured := "unlimited"
	switch {
	case soft != unlimited && m.capable(capIPCLock):
		measured = units.Bytes(soft) + ", but this process may exceed it (CAP_IPC_LOCK)"
	case soft != unlimited:
		measured = units.Bytes(soft)
	}
	f := m.copies.facts.Pin
	why := fmt.Sprintf("Pools and loaders pin hundreds of MiB; beyond %s, memory stays pageable and is copied once more, by the processors.", measured)
	if soft == unlimited || m.capable(capIPCLock) {
		why = "Pools and loaders pin hundreds of MiB; what may not be pinned is copied once more, by the processors."
	}
	switch {
	case soft == unlimited, m.capable(capIPCLock):
		return ok(measured, why)
	case f.Reason == "" && f.Value.Bytes > soft:
		return ok(fmt.Sprintf("%s, and %s were pinned all the same", measured, units.Bytes(f.Value.Bytes)),
			"The driver of this device pins by its own means, past the limit.")
	case soft < gib:
		return warn(measured, why, pinRemedy)
	}
	return ok(measured, why)
}

func checkPinCost(m *machine) Result {
	f := m.copies.facts.Pin
	if f.Reason != "" {
		return skipped("%s", f.Reason)
	}
	perGiB := func(seconds float64) float64 { return seconds * gib / float64(f.Value.Bytes) }
	huge, small := perGiB(f.Value.Huge), perGiB(f.Value.Small)
	measured := fmt.Sprintf("%s a GiB, %s with small pages", units.Seconds(huge), units.Seconds(small))
	why := fmt.Sprintf("Pinning is paid once for each buffer; with huge pages there are 512 times fewer pages to fault in and to lock, which takes %s of the time here.",
		units.Percent(huge/small))
	const slow = 0.7 // seconds a GiB; new memory of a virtual machine takes about a half
	if huge > slow {
		return warn(measured, why, "See huge-pages, and cpu-load: faulting pages in is work of all processors. Take pinned memory from a pool (pinned.Pool), which keeps it.")
	}
	return ok(measured, why)
}

func checkHugePages(m *machine) Result {
	const file = "/sys/kernel/mm/transparent_hugepage/enabled"
	mode := m.chosen(file)
	const why = "With huge pages of 2 MiB, pinning 1 GiB locks 512 pages instead of 262,144."
	switch mode {
	case "":
		return skipped("the kernel has none, or does not tell")
	case "never":
		return warn(mode, why, "`echo madvise | sudo tee "+file+"`, and transparent_hugepage=madvise on the kernel's command line to keep it.")
	}
	return ok(mode, why)
}

func checkShm(m *machine) Result {
	mounted, found := m.mountOf("/dev/shm")
	if m.goos != "linux" || !found || mounted.point != "/dev/shm" {
		return skipped("there is no /dev/shm")
	}
	total, free, err := m.space("/dev/shm")
	if err != nil || total == 0 {
		return skipped("the system does not tell its size")
	}
	measured := fmt.Sprintf("%s of %s free", units.Bytes(free), units.Bytes(total))
	const why = "PyTorch's workers pass batches through /dev/shm and die with \"bus error\" when it is full; Pinion needs it for named shared segments alone."
	switch {
	case total < gib:
		return warn(measured, why, "`docker run --shm-size=8g` or `--ipc=host`; in Kubernetes an emptyDir with medium: Memory at /dev/shm; else `sudo mount -o remount,size=8G /dev/shm`.")
	case free < total/10:
		return warn(measured, why, "`ls -lhS /dev/shm` shows what fills it; files of processes that are gone may be deleted.")
	}
	return ok(measured, why)
}

func checkSwap(m *machine) Result {
	info := m.meminfo()
	total, known := info["SwapTotal"]
	if !known {
		return skipped("the system does not tell")
	}
	const why = "A page that was swapped out comes back at the speed of a disk, while workers wait."
	if total == 0 {
		return ok("there is none", why)
	}
	used := total - info["SwapFree"] - info["SwapCached"]
	measured := fmt.Sprintf("%s of %s in use", units.Bytes(max(used, 0)), units.Bytes(total))
	if used > gib || used > total/4 && used > 256<<20 {
		return warn(measured, why, "Stop what holds memory (`ps aux --sort=-rss | head`). Then `sudo swapoff -a && sudo swapon -a` brings all pages back, if free memory has room for them.")
	}
	return ok(measured, why)
}

func checkOvercommit(m *machine) Result {
	mode, known := m.number("/proc/sys/vm/overcommit_memory")
	if !known {
		return skipped("the system does not tell")
	}
	const why = "The CUDA driver and device pools reserve address space far beyond memory, which strict accounting refuses."
	if mode == 2 {
		info := m.meminfo()
		return warn(fmt.Sprintf("strict: %s of %s committed", units.Bytes(info["Committed_AS"]), units.Bytes(info["CommitLimit"])), why,
			"`sudo sysctl vm.overcommit_memory=0`, and the same line in /etc/sysctl.d/ to keep it.")
	}
	return ok(map[int64]string{0: "heuristic", 1: "always"}[mode], why)
}
