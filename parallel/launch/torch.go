package launch

import "strings"

// torch reads what torchrun sets, and others that set LOCAL_RANK as it does.
func torch(v *vars) World {
	w := World{
		Launcher: "env",
		// Its agent's store listens at MASTER_PORT; otherwise the port is free, and
		// was chosen for rank 0.
		Shared:  v.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
		Restart: v.count("TORCHELASTIC_RESTART_COUNT"),
	}
	w.Rank, w.Size = v.pair("RANK", "WORLD_SIZE")
	w.LocalRank, w.LocalSize = v.pair("LOCAL_RANK", "LOCAL_WORLD_SIZE")
	w.Master = v.meeting("MASTER_ADDR", "MASTER_PORT", w.Size)
	w.Job = portOf(w.Master)
	if id := v.get("TORCHELASTIC_RUN_ID"); id != "" {
		w.Launcher = "torchrun"
		w.Job = id + ", " + w.Job // "none" if nobody gave one
	}
	return w
}

// env reads the variables that PyTorch needs, one process on each machine: Kubeflow's
// PyTorchJob sets them, and some scripts.
func env(v *vars) World {
	w := World{Launcher: "env", LocalSize: 1}
	if v.any("PET_NNODES", "PET_NPROC_PER_NODE") {
		w.Launcher = "kubeflow"
		v.oneEach()
	}
	w.Rank, w.Size = v.pair("RANK", "WORLD_SIZE")
	w.Master = v.meeting("MASTER_ADDR", "MASTER_PORT", w.Size)
	w.Job = portOf(w.Master)
	return w
}

// kubeflow reads a TrainJob, which sets the defaults of torchrun alone.
func kubeflow(v *vars) World {
	w := World{Launcher: "kubeflow", LocalSize: 1}
	v.oneEach()
	if nodes := v.get("PET_NNODES"); strings.Contains(nodes, ":") || !v.any("PET_NODE_RANK") {
		v.fail("torchrun gives out the ranks here (PET_NNODES is %q, PET_NODE_RANK %q): start this program by torchrun --no-python",
			nodes, v.get("PET_NODE_RANK"))
	}
	w.Rank, w.Size = v.pair("PET_NODE_RANK", "PET_NNODES")
	w.Master = v.meeting("PET_MASTER_ADDR", "PET_MASTER_PORT", w.Size)
	w.Job = portOf(w.Master)
	return w
}

// oneEach fails where torchrun is to start several processes on each machine.
func (v *vars) oneEach() {
	switch n := v.get("PET_NPROC_PER_NODE"); n {
	case "", "1", "auto": // which Kubeflow sets if it is told nothing
	default:
		v.fail("PET_NPROC_PER_NODE is %q, so each machine has several processes, which torchrun starts: start this program by torchrun --no-python", n)
	}
}
