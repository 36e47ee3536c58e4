package mpi

import (
	"fmt"
	"os"
	"strconv"
)

// launched is how a launcher presents itself to the processes that it starts.
type launched struct {
	name  string
	mpich bool // its library is MPICH, rather than Open MPI
	size  int  // number of ranks, or 0 where the launcher does not say
}

// launcher reads an environment; ok is false where there is none. The innermost comes
// first: mpirun may run in a step of Slurm.
func launcher(getenv func(string) string) (l launched, ok bool) {
	number := func(name string) int {
		n, _ := strconv.Atoi(getenv(name))
		return n
	}
	switch {
	case getenv("OMPI_COMM_WORLD_SIZE") != "":
		return launched{"mpirun of Open MPI", false, number("OMPI_COMM_WORLD_SIZE")}, true
	case getenv("PMI_RANK") != "" && getenv("MPI_LOCALRANKID") != "":
		return launched{"mpirun of MPICH", true, number("PMI_SIZE")}, true
	case getenv("PMIX_RANK") != "":
		return launched{"a launcher with PMIx", false, number("SLURM_STEP_NUM_TASKS")}, true
	case getenv("PMI_RANK") != "":
		return launched{"a launcher with PMI", true, number("PMI_SIZE")}, true
	}
	return launched{}, false
}

// Available returns nil where [Open] can start MPI: an MPI launcher started this process,
// and there is a library. Otherwise it fails with [ErrUnavailable], and says what to do.
// It does not start MPI.
func Available() error {
	if _, ok := launcher(os.Getenv); !ok {
		hint := "mpirun -n 4 PROGRAM does"
		if os.Getenv("SLURM_STEP_ID") != "" {
			hint = "srun needs --mpi=pmix for Open MPI, or --mpi=pmi2 for MPICH"
		}
		return fmt.Errorf("mpi: %w: no MPI launcher started this process; %s", ErrUnavailable, hint)
	}
	_, err := load()
	return err
}
