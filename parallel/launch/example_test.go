package launch_test

import (
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/parallel/launch"
)

// The third task of srun -N 2 -n 3, as it sees itself.
func Example() {
	env := map[string]string{
		"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3",
		"SLURM_NODEID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "2,1",
		"SLURM_STEP_NODELIST": "gpu[01-02]", "MASTER_PORT": "29500",
	}
	world, err := launch.From(func(name string) string { return env[name] }) // FromEnv reads this process's
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d, GPU %d of %d\n", world.Rank, world.Size, world.LocalRank, world.LocalSize)
	fmt.Println("rank 0 is at", world.Master)
	// Output:
	// rank 2 of 3, GPU 0 of 1
	// rank 0 is at gpu01:29500
}
