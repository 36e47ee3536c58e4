// Package mpi has communicators whose ranks are processes that MPI connects, for devices
// that run Go functions, such as the host.
//
//	comm, err := mpi.Open(dev)
//	…
//	err = comm.Close()
//
// A program is started by mpirun, or by Slurm:
//
//	mpirun -n 4 --bind-to none ./program
//	srun -n 4 --mpi=pmix --kill-on-bad-exit ./program
//
// mpirun of Open MPI binds each rank, with all of its goroutines, to one core or NUMA node
// unless told otherwise. Slurm has --mpi=pmix for Open MPI and --mpi=pmi2 for MPICH; some of
// its plugins leave the other ranks alone when one is killed, unless told otherwise, too.
//
// Open MPI (libmpi.so.40; tested with 4.1) and MPICH (libmpich.so.12, or libmpi.so.12 of
// whatever keeps its ABI; tested with 4.0) are loaded when needed, whichever the launcher is
// of; PINION_LIB_MPI names another file. Other code of the process may use MPI beside if it
// initialized it first, with MPI_THREAD_MULTIPLE.
//
// Data goes through memory of this package's own, in pieces, and elements of 16 bits as
// float32. Where a sum of integers overflows, Open MPI may give the largest instead.
// Operations on several communicators go on at the same time. While a rank waits for others
// it takes a few percent of a processor.
package mpi
