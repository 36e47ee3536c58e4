// Package mpi has communicators whose ranks are processes that MPI connects, for devices
// that run Go functions, such as the host.
//
//	comm, err := mpi.Open(dev)
//	…
//	err = comm.Close()
//
// A program is started by the launcher that belongs to the library:
//
//	mpirun -n 4 ./program
//	srun --mpi=pmix -n 4 ./program   # Open MPI; --mpi=pmi2 for MPICH
//
// Open MPI (4, 5) and MPICH (3.3 and newer, with what keeps its ABI, such as Intel MPI) are
// loaded when needed, whichever the launcher is of; PINION_LIB_MPI names another file. MPI is
// not to be initialized by other code of the process, or with MPI_THREAD_MULTIPLE.
//
// Data goes through memory of this package's own, in pieces, and elements of 16 bits as
// float32. Operations on several communicators go on at the same time.
package mpi
