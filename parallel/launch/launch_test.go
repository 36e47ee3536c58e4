package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// from reads an environment of lines NAME=VALUE.
func from(env string) (World, error) {
	vars := map[string]string{}
	for _, pair := range strings.Fields(env) {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
	}
	return From(func(name string) string { return vars[name] })
}

// Environments as launchers make them.
const (
	// torchrun --nnodes 2 --nproc-per-node 2 with a static rendezvous
	ofTorchrun = ` RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 GROUP_WORLD_SIZE=2
		MASTER_ADDR=node1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=2
		TORCHELASTIC_MAX_RESTARTS=3 TORCHELASTIC_USE_AGENT_STORE=True `
	// sbatch -N 3 -n 6
	ofBatch = ` SLURM_JOB_ID=2 SLURM_JOB_NODELIST=gpu[01-03] SLURM_NODELIST=gpu[01-03] SLURM_LOCALID=0 SLURM_NODEID=0
		SLURM_NPROCS=6 SLURM_NTASKS=6 SLURM_PROCID=0 SLURM_TASKS_PER_NODE=4,1(x2) `
	// srun -N 2 -n 3 within that
	ofStep = ` SLURM_JOB_ID=2 SLURM_JOB_NODELIST=gpu[01-03] SLURM_NODELIST=gpu[01-03] SLURM_LOCALID=0 SLURM_NODEID=1
		SLURM_NPROCS=3 SLURM_NTASKS=3 SLURM_PROCID=2 SLURM_TASKS_PER_NODE=2,1 SLURM_STEP_ID=0 SLURM_STEPID=0
		SLURM_STEP_NODELIST=gpu[02-03] SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=3 SLURM_STEP_TASKS_PER_NODE=2,1
		SLURM_LAUNCH_NODE_IPADDR=127.0.0.1 `
	// mpirun -n 2 of Open MPI
	ofOpenMPI = ` OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2
		PMIX_RANK=1 PMIX_NAMESPACE=1264648193 `
	// mpiexec -n 2 of MPICH
	ofMPICH = ` PMI_RANK=1 PMI_SIZE=2 PMI_FD=8 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 `
	// a PyTorchJob of one master and two workers
	ofPyTorchJob = ` RANK=2 WORLD_SIZE=3 MASTER_ADDR=job-master-0 MASTER_PORT=23456
		PET_NODE_RANK=2 PET_NNODES=3 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456 `
	// a TrainJob of two nodes
	ofTrainJob = ` PET_NODE_RANK=1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29500 `
	byHandEnv  = ` PINION_RANK=1 PINION_WORLD_SIZE=2 PINION_MASTER=[::1]:4000 `
)

func TestFrom(t *testing.T) {
	alone := World{Size: 1, LocalSize: 1}
	torchrun := World{Launcher: "torchrun", Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Master: "node1:29500", Shared: true, Job: "none, port 29500", Restart: 2}
	step := World{Launcher: "slurm", Rank: 2, Size: 3, LocalSize: 1, Master: fmt.Sprintf("gpu02:%d", derivedPort("2.0")), Job: "2.0"}
	openMPI := World{Launcher: "openmpi", Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Job: "1264648193"}
	mpich := World{Launcher: "mpich", Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2}
	hand := World{Launcher: "hand", Rank: 1, Size: 2, LocalSize: 1, Master: "[::1]:4000", Job: "port 4000"}
	with := func(w World, change func(*World)) World { change(&w); return w }
	for name, c := range map[string]struct {
		env  string
		want World
	}{
		"nothing":                          {"", alone},
		"torchrun":                         {ofTorchrun, torchrun},
		"torchrun with a store of its own": {ofTorchrun + "TORCHELASTIC_USE_AGENT_STORE=False", with(torchrun, func(w *World) { w.Shared = false })},
		"torchrun in a step":               {ofStep + ofTorchrun, torchrun},
		"torchrun in a pod":                {ofPyTorchJob + ofTorchrun, torchrun},
		"another of its kind": {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=1",
			World{Launcher: "env", Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, Master: "[::1]:1", Job: "port 1"}},
		"step":                      {ofStep, step},
		"step with pmi2":            {ofStep + "PMI_RANK=2 PMI_SIZE=3 PMI_JOBID=2.0", step},
		"step with pmix":            {ofStep + "PMIX_RANK=2 PMIX_NAMESPACE=slurm.pmix.2.0", step},
		"step of a job restarted":   {ofStep + "SLURM_RESTART_COUNT=1 MASTER_PORT=1", with(step, func(w *World) { w.Restart, w.Job, w.Master = 1, "2.0, restart 1", "gpu02:1" })},
		"step with an address":      {ofStep + "MASTER_ADDR=[fe80::1] MASTER_PORT=5 WORLD_SIZE=3", with(step, func(w *World) { w.Master = "[fe80::1]:5" })},
		"step whose ranks say RANK": {ofStep + "RANK=2 WORLD_SIZE=3 MASTER_ADDR=a MASTER_PORT=5", with(step, func(w *World) { w.Master = "a:5" })},
		"step of one node": {ofStep + "SLURM_STEP_TASKS_PER_NODE=3 SLURM_NODEID=0 SLURM_LOCALID=2",
			with(step, func(w *World) {
				w.LocalRank, w.LocalSize, w.Master = 2, 3, fmt.Sprintf("127.0.0.1:%d", derivedPort("2.0"))
			})},
		"step of one": {ofStep + "SLURM_STEP_TASKS_PER_NODE=1 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", with(step, func(w *World) { w.Rank, w.Size, w.Master = 0, 1, "" })},
		"step without its own variables": {strings.ReplaceAll(ofStep, "SLURM_STEP_N", "X_"),
			with(step, func(w *World) { w.Master = fmt.Sprintf("gpu01:%d", derivedPort("2.0")) })},
		"batch script":            {ofBatch, alone},
		"batch step of old":       {ofBatch + "SLURM_STEP_ID=4294967294", alone},
		"shell of salloc":         {ofStep + "SLURM_STEP_ID=4294967290", alone},
		"openmpi":                 {ofOpenMPI, openMPI},
		"openmpi in a step":       {ofStep + ofOpenMPI, openMPI},
		"openmpi in a pod":        {ofPyTorchJob + ofOpenMPI, with(openMPI, func(w *World) { w.Master = "job-master-0:23456" })},
		"mpich":                   {ofMPICH, mpich},
		"mpich in a step":         {ofStep + ofMPICH, mpich},
		"mpich with an address":   {ofMPICH + "PINION_MASTER=a:1", with(mpich, func(w *World) { w.Master = "a:1" })},
		"PyTorchJob":              {ofPyTorchJob, World{Launcher: "kubeflow", Rank: 2, Size: 3, LocalSize: 1, Master: "job-master-0:23456", Job: "port 23456"}},
		"RANK alone":              {"RANK=0 WORLD_SIZE=1", World{Launcher: "env", Size: 1, LocalSize: 1}},
		"TrainJob":                {ofTrainJob, World{Launcher: "kubeflow", Rank: 1, Size: 2, LocalSize: 1, Master: "job-node-0-0.job:29500", Job: "port 29500"}},
		"hand":                    {byHandEnv, hand},
		"hand over torchrun":      {ofTorchrun + byHandEnv, hand},
		"hand, with all":          {byHandEnv + "PINION_LOCAL_RANK=1 PINION_LOCAL_WORLD_SIZE=2 PINION_JOB=mine", with(hand, func(w *World) { w.LocalRank, w.LocalSize, w.Job = 1, 2, "mine" })},
		"hand, of one":            {"PINION_RANK=0 PINION_WORLD_SIZE=1", World{Launcher: "hand", Size: 1, LocalSize: 1}},
		"torchrun, met elsewhere": {ofTorchrun + "PINION_MASTER=a:1", with(torchrun, func(w *World) { w.Master, w.Shared = "a:1", false })},
	} {
		if got, err := from(c.env); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v\nwant %+v", name, got, err, c.want)
		}
	}
}

// Each error names the variable and its value.
func TestContradictions(t *testing.T) {
	for env, says := range map[string]string{
		ofTorchrun + "RANK=4":                       "RANK is 4, but WORLD_SIZE is 4",
		ofTorchrun + "RANK=-1":                      "RANK is -1: not within 0 to",
		ofTorchrun + "WORLD_SIZE=four":              `WORLD_SIZE is "four": not a whole number`,
		ofTorchrun + "WORLD_SIZE=99999999999":       "WORLD_SIZE is 99999999999: not within",
		ofTorchrun + "WORLD_SIZE=":                  "WORLD_SIZE is not set",
		ofTorchrun + "LOCAL_RANK=2":                 "LOCAL_RANK is 2, but LOCAL_WORLD_SIZE is 2",
		ofTorchrun + "MASTER_PORT=":                 `MASTER_ADDR is "node1", but MASTER_PORT is not set`,
		ofTorchrun + "MASTER_ADDR=":                 "4 ranks, but MASTER_ADDR and MASTER_PORT",
		ofTorchrun + "MASTER_PORT=70000":            `"node1:70000": not host:port`,
		ofTorchrun + "MASTER_PORT=0":                `"node1:0": not host:port`,
		ofTorchrun + "TORCHELASTIC_RESTART_COUNT=x": `TORCHELASTIC_RESTART_COUNT is "x"`,
		"RANK=1":                  "WORLD_SIZE is not set",
		"WORLD_SIZE=2":            "RANK is not set",
		"RANK=0 WORLD_SIZE=0":     "RANK is 0, but WORLD_SIZE is 0",
		ofBatch + "WORLD_SIZE=6":  "RANK is not set",
		ofStep + "SLURM_PROCID=3": "SLURM_PROCID is 3, but SLURM_STEP_NUM_TASKS is 3",
		ofStep + "SLURM_STEP_NUM_TASKS= SLURM_NTASKS=":              "SLURM_STEP_NUM_TASKS is not set",
		ofStep + "SLURM_LOCALID=1":                                  "SLURM_LOCALID is 1, but SLURM_STEP_TASKS_PER_NODE is 1",
		ofStep + "SLURM_LOCALID=":                                   "SLURM_LOCALID is not set",
		ofStep + "SLURM_NODEID=2":                                   `SLURM_STEP_TASKS_PER_NODE is "2,1", and SLURM_NODEID 2: only 2 nodes`,
		ofStep + "SLURM_STEP_TASKS_PER_NODE=2(x":                    `no number of tasks: "2(x"`,
		ofStep + "SLURM_STEP_TASKS_PER_NODE= SLURM_TASKS_PER_NODE=": "SLURM_STEP_TASKS_PER_NODE is not set",
		ofStep + "SLURM_STEP_NODELIST=gpu[1":                        `SLURM_STEP_NODELIST is "gpu[1": not a list of hosts`,
		ofStep + "SLURM_STEP_NODELIST= SLURM_JOB_NODELIST=":         "3 ranks on several nodes, but neither SLURM_STEP_NODELIST",
		ofStep + "MASTER_PORT=x":                                    `"gpu02:x": not host:port`,
		ofOpenMPI + "OMPI_COMM_WORLD_SIZE=":                         "OMPI_COMM_WORLD_SIZE is not set",
		ofOpenMPI + "MASTER_ADDR=a":                                 `MASTER_ADDR is "a", but MASTER_PORT is not set`,
		"PMI_RANK=0 PMI_SIZE=2":                                     "MPI_LOCALRANKID is not set",
		"PMIX_RANK=1 PMIX_NAMESPACE=a":                              `PMIX_RANK is "1", but no variable says how many`,
		ofPyTorchJob + "PET_NPROC_PER_NODE=8":                       `PET_NPROC_PER_NODE is "8", so each machine has several processes, which torchrun starts`,
		ofTrainJob + "PET_NPROC_PER_NODE=gpu":                       `PET_NPROC_PER_NODE is "gpu"`,
		ofTrainJob + "PET_MASTER_PORT=":                             "PET_MASTER_PORT is not set",
		"PET_NNODES=1:4 PET_RDZV_ENDPOINT=a:1":                      `(PET_NNODES is "1:4", PET_NODE_RANK ""): start this program by torchrun`,
		byHandEnv + "PINION_MASTER=":                                "PINION_WORLD_SIZE is 2, but PINION_MASTER",
		byHandEnv + "PINION_MASTER=host":                            `PINION_MASTER is "host": not host:port`,
		byHandEnv + "PINION_WORLD_SIZE=1":                           "PINION_RANK is 1, but PINION_WORLD_SIZE is 1",
		byHandEnv + "PINION_LOCAL_RANK=1":                           "PINION_LOCAL_WORLD_SIZE is not set",
		"PINION_MASTER=a:1":                                         `PINION_MASTER is "a:1", but PINION_RANK is not set`,
	} {
		got, err := from(env)
		testkit.WantError(t, env, err, ErrEnvironment, says)
		if got != (World{}) {
			t.Errorf("%s: %+v beside an error", env, got)
		}
	}
}

// Two runs of one host get ports of their own, which have no service at home.
func TestDerivedPort(t *testing.T) {
	ports := map[int]bool{}
	for job := range 200 {
		port := derivedPort(fmt.Sprintf("%d.0", job))
		if port < 49152 || port+15 > 65535 {
			t.Fatalf("job %d: %d", job, port)
		}
		ports[port] = true
	}
	if len(ports) < 190 {
		t.Errorf("200 jobs share %d ports", len(ports))
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("PINION_RANK", "1")
	t.Setenv("PINION_WORLD_SIZE", "3")
	t.Setenv("PINION_MASTER", "a:1")
	if w, err := FromEnv(); err != nil || w.Rank != 1 || w.Size != 3 {
		t.Errorf("%+v, %v", w, err)
	}
}
