package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
)

// processorChecks are about the processors, and limits of this process.
var processorChecks = []Check{
	{Name: "cpu-quota", Family: "processors", Asks: "does a container limit processor time, and does Go know?", run: checkQuota},
	{Name: "cpu-count", Family: "processors", Asks: "are there enough processors to feed a GPU?", gpu: true, run: checkCount},
	{Name: "cpu-load", Family: "processors", Asks: "are the processors free?", run: checkLoad},
	{Name: "cpu-governor", Family: "processors", Asks: "do the processors run at full clock?", run: checkGovernor},
	{Name: "copy-threads", Family: "processors", Asks: "do copies in host memory scale with threads?", needs: []string{"copies"}, run: checkThreads},
	{Name: "open-files", Family: "processors", Asks: "how many files may be open?", run: checkOpenFiles},
}

func checkQuota(m *machine) Result {
	q := sysmem.QuotaOf(m.root)
	set := m.getenv("GOMAXPROCS")
	measured := fmt.Sprintf("GOMAXPROCS %d of %s", m.processors, units.Count(m.cpus, "processor"))
	if q.CPUs > 0 {
		measured += fmt.Sprintf(", a quota of %.3g", q.CPUs)
	}
	const late = 0.1 // of the periods
	throttled := float64(q.Throttled) / float64(max(q.Periods, 1))
	const why = "A process with more threads than its quota is stopped for the rest of each period, tens of milliseconds, copies included."
	switch {
	// Go rounds the quota up, to 2 at least.
	case q.CPUs > 0 && m.processors > max(2, int(math.Ceil(q.CPUs))):
		return warn(measured, why, fmt.Sprintf("Unset GOMAXPROCS (it is %q), so that Go follows the quota, or raise the quota: `docker run --cpus %d`, resources.limits.cpu in Kubernetes.", set, m.processors))
	case q.CPUs > 0 && throttled > late:
		return warn(fmt.Sprintf("%s; stopped in %s of the periods", measured, units.Percent(throttled)), why,
			"Raise the quota (`docker run --cpus`, resources.limits.cpu), or run fewer workers: --workers.")
	case set != "" && m.processors < m.cpus && (q.CPUs == 0 || float64(m.processors) < q.CPUs):
		return warn(measured, "Workers and copiers follow GOMAXPROCS, which leaves processors idle here.", "Unset GOMAXPROCS, which is "+set+".")
	}
	return ok(measured, why)
}

func checkCount(m *machine) Result {
	measured := units.Count(m.processors, "processor")
	const (
		few = 4
		why = "It takes 8 to 16 copiers to fill a PCIe 5 link from pageable memory, and workers to decode beside them."
	)
	if m.processors < few {
		return warn(measured, why, "Take a machine or a container with more processors. Until then pin what is copied, and decode on the GPU or beforehand (`pinion pack`).")
	}
	return ok(measured, why)
}

func checkLoad(m *machine) Result {
	f := strings.Fields(m.text("/proc/loadavg"))
	if len(f) == 0 {
		return skipped("the system does not tell")
	}
	load, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return skipped("the system does not tell")
	}
	measured := fmt.Sprintf("a load of %s on %s", units.Digits(load), units.Count(m.cpus, "processor"))
	const why = "The load is how many tasks ran or waited in the last minute; workers, copiers and the figures here share the processors with them."
	if load > float64(m.cpus)+0.5 {
		return warn(measured, why, "`ps -eo pid,pcpu,comm --sort=-pcpu | head` shows who they are. Stop them, or measure when they are done.")
	}
	return ok(measured, why)
}

func checkGovernor(m *machine) Result {
	const dir = "/sys/devices/system/cpu/cpu0/cpufreq/"
	governor, driver := m.text(dir+"scaling_governor"), m.text(dir+"scaling_driver")
	if governor == "" {
		return skipped("the system does not tell, as virtual machines do not")
	}
	measured := fmt.Sprintf("%s (%s)", governor, driver)
	const why = "A processor that saves power copies and decodes at a lower clock, and wakes up late."
	const remedy = "`sudo cpupower frequency-set -g performance`, or `echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`."
	// The drivers of Intel and AMD that choose by themselves call that powersave.
	if preference := m.text(dir + "energy_performance_preference"); preference != "" {
		measured += ", prefers " + preference
		if preference == "power" || preference == "balance_power" {
			return warn(measured, why, remedy)
		}
	} else if governor == "powersave" && driver != "intel_pstate" {
		return warn(measured, why, remedy)
	}
	return ok(measured, why)
}

func checkThreads(m *machine) Result {
	list := m.copies.facts.Threads
	if len(list) == 0 {
		return skipped("nothing was measured")
	}
	one, all := list[0], list[len(list)-1]
	measured := rate(one.Rate) + " by one thread"
	if len(list) > 1 {
		measured += fmt.Sprintf(", %s by %d", rate(all.Rate), all.Threads)
	}
	why := "Staging and decoding move every byte once more by the processors."
	const (
		enough = 4 // threads that should gain
		gain   = 1.5
	)
	if all.Threads >= enough && all.Rate < gain*one.Rate {
		return warn(measured, why, "Fill all memory channels of the host; see cpu-load and cpu-quota. In a virtual machine the neighbours share the memory: take a larger one.")
	}
	return ok(measured, why)
}

func checkOpenFiles(m *machine) Result {
	// Go raises its own limit to what is allowed; the shell that started this program
	// has its own still. A parent that allows something else, as that of a service
	// does, says nothing of this process.
	soft, hard, known := m.limit("self", "Max open files")
	if s, h, told := m.limit(fmt.Sprint(m.parent), "Max open files"); told && (h == hard || !known) {
		soft, hard, known = s, h, true
	}
	if !known {
		return skipped("the system does not tell")
	}
	measured := fmt.Sprintf("%s (hard limit: %s)", files(soft), files(hard))
	const why = "Each worker that reads and each shared segment takes some; PyTorch's workers take one for each tensor that they pass."
	const few = 4096
	switch {
	case hard < few:
		return warn(measured, why, "Raise it in /etc/security/limits.conf: `* - nofile 1048576`; or `docker run --ulimit nofile=1048576`; or LimitNOFILE= in a systemd unit.")
	case soft < few:
		return warn(measured, why, fmt.Sprintf("`ulimit -n %s` before the program starts. (Go programs do so by themselves.)", limitWord(hard)))
	}
	return ok(measured, why)
}

func files(n int64) string {
	if n == unlimited {
		return "unlimited"
	}
	return units.Grouped(n)
}

func limitWord(n int64) string {
	if n == unlimited {
		return "unlimited"
	}
	return fmt.Sprint(min(n, 1<<20))
}
