package launch

import (
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
)

// inStep reports whether srun started this process. A batch script has SLURM_PROCID
// and SLURM_NTASKS too, but no step; the shell of salloc may be a step of its own, with
// one of the numbers at the end that Slurm keeps for itself.
func inStep(v *vars) bool {
	step, err := strconv.ParseUint(v.get("SLURM_STEP_ID"), 10, 32)
	return err == nil && step < 0xfffffff0 && v.any("SLURM_PROCID")
}

func slurm(v *vars) World {
	w := World{Launcher: "slurm", LocalRank: v.number("SLURM_LOCALID"), Restart: v.count("SLURM_RESTART_COUNT")}
	size := v.first("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
	if size == "" {
		size = "SLURM_STEP_NUM_TASKS"
	}
	w.Rank, w.Size = v.pair("SLURM_PROCID", size)

	name := v.first("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
	var err error
	if w.LocalSize, err = tasksOf(v.get(name), v.number("SLURM_NODEID")); name == "" {
		v.fail("SLURM_STEP_TASKS_PER_NODE is not set")
	} else if err != nil {
		v.fail("%s is %q, and SLURM_NODEID %s: %w", name, v.get(name), v.get("SLURM_NODEID"), err)
	} else {
		v.within("SLURM_LOCALID", w.LocalRank, name, w.LocalSize)
	}

	w.Job = fmt.Sprintf("%s.%s", v.get("SLURM_JOB_ID"), v.get("SLURM_STEP_ID"))
	if w.Restart > 0 {
		w.Job += fmt.Sprintf(", restart %d", w.Restart)
	}
	if host := w.slurmHost(v); host != "" && v.any("MASTER_PORT") {
		w.Master = v.address("MASTER_PORT", net.JoinHostPort(host, v.get("MASTER_PORT")))
	} else if host != "" {
		w.Master = net.JoinHostPort(host, strconv.Itoa(derivedPort(w.Job)))
	}
	return w
}

// slurmHost is where rank 0 is.
func (w World) slurmHost(v *vars) string {
	list := v.first("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
	switch {
	case v.any("MASTER_ADDR"):
		return trimmed(v.get("MASTER_ADDR"))
	case w.Size == 1:
		return ""
	case w.LocalSize == w.Size:
		return "127.0.0.1" // node names need not be names of hosts
	case list == "":
		v.fail("there are %d ranks on several nodes, but neither SLURM_STEP_NODELIST nor MASTER_ADDR is set", w.Size)
		return ""
	}
	host, err := firstHost(v.get(list))
	if err != nil {
		v.fail("%s is %q: %w", list, v.get(list), err)
	}
	return host
}

// derivedPort is the port of a run within 49152 to 65535, where no service is at home,
// with room for those that are tried after it.
func derivedPort(job string) int {
	h := fnv.New32a()
	h.Write([]byte(job))
	return 49152 + int(h.Sum32()%(65536-49152-16))
}
