package mpi

import (
	"strings"
	"testing"
)

func TestLauncher(t *testing.T) {
	for env, want := range map[string]launched{
		"":                                   {},
		"SLURM_STEP_NUM_TASKS=4":             {},
		"OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=0": {"mpirun of Open MPI", false, 3},
		"OMPI_COMM_WORLD_SIZE=3 PMI_RANK=0 SLURM_STEP_NUM_TASKS=1": {"mpirun of Open MPI", false, 3},
		"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 PMIX_RANK=0":      {"mpirun of MPICH", true, 2},
		"PMIX_RANK=1 SLURM_STEP_NUM_TASKS=4":                       {"a launcher with PMIx", false, 4},
		"PMIX_RANK=1":                                              {"a launcher with PMIx", false, 0},
		"PMI_RANK=1 PMI_SIZE=2 SLURM_STEP_NUM_TASKS=2":             {"a launcher with PMI", true, 2},
	} {
		got, ok := launcher(func(name string) string {
			for _, pair := range strings.Fields(env) {
				if n, value, _ := strings.Cut(pair, "="); n == name {
					return value
				}
			}
			return ""
		})
		if got != want || ok != (want.name != "") {
			t.Errorf("%q: %+v, %t, want %+v", env, got, ok, want)
		}
	}
}
