package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// ErrEnvironment: the variables of the environment contradict each other, or one that
// belongs to others is missing.
var ErrEnvironment = errors.New("bad environment")

// World is this process among those that a launcher started together.
type World struct {
	// Launcher that the ranks were read from: "torchrun", "openmpi", "mpich", "slurm",
	// "kubeflow", "env" (another program that sets RANK and WORLD_SIZE), "hand", or ""
	// where there is none.
	Launcher string

	Rank, Size           int // Rank is 0 to Size - 1
	LocalRank, LocalSize int // the same among those on this machine

	// Master is host:port where rank 0 can be met; "" where there is one rank, or the
	// launcher does not say (mpirun).
	Master string
	// Shared: another program, such as torchrun's store, holds that port.
	Shared bool
	// Job names this run: the same on all ranks, and another one for another run on
	// the same hosts. "" where the launcher does not say (MPICH).
	Job string
	// Restart is how often the launcher has started the run again. Ranks on different
	// machines may disagree: torchrun counts on each by itself.
	Restart int
}

// FromEnv reads the environment of this process. Without a launcher it is the only
// rank: World{Size: 1, LocalSize: 1}. It fails with [ErrEnvironment].
func FromEnv() (World, error) { return From(os.Getenv) }

// From is [FromEnv] of another environment, in which a variable that is not set is "".
func From(getenv func(string) string) (World, error) {
	v := &vars{get: getenv}
	w := World{Size: 1, LocalSize: 1}
	for _, l := range launchers {
		if l.present(v) {
			w = l.read(v)
			break
		}
	}
	if master := v.get("PINION_MASTER"); master != "" {
		if w.Launcher == "" {
			v.fail("PINION_MASTER is %q, but PINION_RANK is not set", master)
		}
		v.address("PINION_MASTER", master)
		w.Master, w.Shared = master, false
	}
	if v.err != nil {
		return World{}, fmt.Errorf("launch: %w: %w", ErrEnvironment, v.err)
	}
	return w, nil
}

// launchers has the innermost first: mpirun and torchrun may run within an allocation
// of Slurm, or in a pod of Kubeflow, and leave its variables as they are.
var launchers = []struct {
	present func(*vars) bool
	read    func(*vars) World
}{
	{func(v *vars) bool { return v.any("PINION_RANK", "PINION_WORLD_SIZE") }, byHand},
	{func(v *vars) bool { return v.any("RANK") && v.any("LOCAL_RANK", "TORCHELASTIC_RUN_ID") }, torch},
	{func(v *vars) bool { return v.any("OMPI_COMM_WORLD_RANK") }, openMPI},
	{func(v *vars) bool { return v.any("PMI_RANK") && v.any("MPI_LOCALRANKID") }, mpich},
	{inStep, slurm}, // has PMI_RANK or PMIX_RANK too, with --mpi
	{func(v *vars) bool { return v.any("PMI_RANK") }, mpich},
	{func(v *vars) bool { return v.any("PMIX_RANK") }, pmix},
	{func(v *vars) bool { return v.any("RANK", "WORLD_SIZE") }, env},
	{func(v *vars) bool {
		return v.any("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT")
	}, kubeflow},
}

func byHand(v *vars) World {
	w := World{Launcher: "hand", LocalSize: 1, Master: v.get("PINION_MASTER")}
	w.Rank, w.Size = v.pair("PINION_RANK", "PINION_WORLD_SIZE")
	if v.any("PINION_LOCAL_RANK", "PINION_LOCAL_WORLD_SIZE") {
		w.LocalRank, w.LocalSize = v.pair("PINION_LOCAL_RANK", "PINION_LOCAL_WORLD_SIZE")
	}
	if w.Master == "" && w.Size > 1 {
		v.fail("PINION_WORLD_SIZE is %d, but PINION_MASTER (host:port of rank 0) is not set", w.Size)
	}
	if w.Job = v.get("PINION_JOB"); w.Job == "" {
		w.Job = portOf(w.Master)
	}
	return w
}

// portOf is the name of a run that has no other: two on one host differ in it.
func portOf(master string) string {
	_, port, err := net.SplitHostPort(master)
	if err != nil {
		return ""
	}
	return "port " + port
}
