package launch

// MPI's ranks meet by MPI, so no launcher of it says where rank 0 is.

func openMPI(v *vars) World {
	w := World{Launcher: "openmpi", Master: v.master("MASTER_ADDR", "MASTER_PORT"), Job: v.get("PMIX_NAMESPACE")}
	w.Rank, w.Size = v.pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
	w.LocalRank, w.LocalSize = v.pair("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")
	return w
}

// mpich reads what Hydra sets, the launcher of MPICH and its kin.
func mpich(v *vars) World {
	w := World{Launcher: "mpich", Master: v.master("MASTER_ADDR", "MASTER_PORT")}
	w.Rank, w.Size = v.pair("PMI_RANK", "PMI_SIZE")
	w.LocalRank, w.LocalSize = v.pair("MPI_LOCALRANKID", "MPI_LOCALNRANKS")
	return w
}

// pmix is a launcher of PMIx alone, which keeps the number of ranks to itself.
func pmix(v *vars) World {
	v.fail("PMIX_RANK is %q, but no variable says how many ranks there are: set PINION_RANK, PINION_WORLD_SIZE and PINION_MASTER",
		v.get("PMIX_RANK"))
	return World{}
}
