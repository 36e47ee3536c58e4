// Package launch says which of the ranks of a run this process is, from the environment
// that its launcher gave it. Pinion has no launcher of its own: programs are started by
// torchrun, srun, mpirun or Kubeflow as they are, or by hand.
//
//	world, err := launch.FromEnv()
//	if err != nil {
//		return err
//	}
//	fmt.Printf("rank %d of %d, GPU %d\n", world.Rank, world.Size, world.LocalRank)
//
// Where nothing was launched, this is the only rank: Size is 1, and Launcher is "".
//
// # Launchers
//
// The first one of this table that is found is taken: the innermost, where one runs
// within another, as torchrun or mpirun in an allocation of Slurm.
//
//	launcher       rank, size                              local rank, local size
//	hand           PINION_RANK, PINION_WORLD_SIZE          PINION_LOCAL_RANK, PINION_LOCAL_WORLD_SIZE, or 0 of 1
//	torchrun, env  RANK, WORLD_SIZE                        LOCAL_RANK, LOCAL_WORLD_SIZE
//	openmpi        OMPI_COMM_WORLD_RANK, …_SIZE            OMPI_COMM_WORLD_LOCAL_RANK, …_LOCAL_SIZE
//	mpich          PMI_RANK, PMI_SIZE                      MPI_LOCALRANKID, MPI_LOCALNRANKS
//	slurm          SLURM_PROCID, SLURM_STEP_NUM_TASKS      SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE of SLURM_NODEID
//	kubeflow, env  RANK, WORLD_SIZE                        0 of 1
//	kubeflow       PET_NODE_RANK, PET_NNODES               0 of 1
//
//	launcher       address of rank 0                       job
//	hand           PINION_MASTER                           PINION_JOB, or the port
//	torchrun       MASTER_ADDR, MASTER_PORT                TORCHELASTIC_RUN_ID and the port
//	openmpi        MASTER_ADDR, MASTER_PORT if set         PMIX_NAMESPACE
//	mpich          MASTER_ADDR, MASTER_PORT if set         ""
//	slurm          MASTER_ADDR, or the first host of       SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT
//	               SLURM_STEP_NODELIST; MASTER_PORT,
//	               or one that follows from the job
//	env, kubeflow  MASTER_ADDR, MASTER_PORT                the port
//	kubeflow       PET_MASTER_ADDR, PET_MASTER_PORT        the port
//
// "env" is a program that sets RANK and WORLD_SIZE and is none of the others. With
// LOCAL_RANK it counts as torchrun does, without as one process on each machine.
//
// PINION_MASTER (host:port) replaces the address of any launcher. What is there in part,
// or contradicts itself, is an error that names the variable and its value.
//
// # Torchrun
//
// Torchrun's own store may hold MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE is True):
// then Shared is set, and rank 0 has to listen at another port. TORCHELASTIC_RESTART_COUNT
// is Restart. A program that is not Python is started with --no-python.
//
// # Slurm
//
// What srun starts is a rank. A batch script has SLURM_PROCID and SLURM_NTASKS as well,
// but no SLURM_STEP_ID; so a program that it runs without srun is the only rank, and so
// is one in the shell of salloc. Ranks of one node meet at 127.0.0.1. With srun
// --distribution=arbitrary the first task may not be on the first host of the list: set
// MASTER_ADDR.
//
// # MPI
//
// Ranks of Open MPI and MPICH meet by MPI, so Master is "" unless MASTER_ADDR and
// MASTER_PORT are passed on. A launcher of PMIx alone does not tell how many ranks
// there are, which is an error.
//
// # Kubeflow
//
// A PyTorchJob sets RANK, WORLD_SIZE and the defaults of torchrun (PET_NNODES, …), a
// TrainJob those alone. A program that is started without torchrun is one rank in each
// pod; where PET_NPROC_PER_NODE asks for several, or the number of nodes is elastic,
// only torchrun can tell the ranks, and the error says so.
package launch
