// Prints what library.go relies on, from the header of Open MPI or of MPICH:
//
//	mpicc.openmpi -o abi abi.c && ./abi > openmpi.txt
//	mpicc.mpich -o abi abi.c && ./abi > mpich.txt
#include <mpi.h>
#include <stdio.h>

#define VALUE(name, value) printf("%s %llu\n", name, (unsigned long long)(value))
#define INT(name, value) VALUE(name, (unsigned)(value))
#ifdef OPEN_MPI
// Handles are addresses of symbols: 1 where it is that one.
#define HANDLE(mpi, symbol) VALUE(#symbol, (void *)(mpi) == (void *)&symbol)
#else
#define HANDLE(mpi, symbol) VALUE(#mpi, (unsigned)(mpi))
#endif

int main(void) {
	HANDLE(MPI_COMM_WORLD, ompi_mpi_comm_world);
	HANDLE(MPI_ERRORS_RETURN, ompi_mpi_errors_return);
	HANDLE(MPI_BYTE, ompi_mpi_byte);
	HANDLE(MPI_INT8_T, ompi_mpi_int8_t);
	HANDLE(MPI_UINT8_T, ompi_mpi_uint8_t);
	HANDLE(MPI_INT32_T, ompi_mpi_int32_t);
	HANDLE(MPI_UINT32_T, ompi_mpi_uint32_t);
	HANDLE(MPI_INT64_T, ompi_mpi_int64_t);
	HANDLE(MPI_UINT64_T, ompi_mpi_uint64_t);
	HANDLE(MPI_FLOAT, ompi_mpi_float);
	HANDLE(MPI_DOUBLE, ompi_mpi_double);
	HANDLE(MPI_SUM, ompi_mpi_op_sum);
	HANDLE(MPI_PROD, ompi_mpi_op_prod);
	HANDLE(MPI_MIN, ompi_mpi_op_min);
	HANDLE(MPI_MAX, ompi_mpi_op_max);
	VALUE("inPlace", (size_t)MPI_IN_PLACE);
	INT("undefined", MPI_UNDEFINED);
	INT("errTruncate", MPI_ERR_TRUNCATE);
	INT("threadFunneled", MPI_THREAD_FUNNELED);
	INT("threadMultiple", MPI_THREAD_MULTIPLE);
	VALUE("sizeof(handle)", sizeof(MPI_Comm));
	VALUE("sizeof(request)", sizeof(MPI_Request));
	// Not more than the buffers that are given for them.
	VALUE("statusFits", sizeof(MPI_Status) <= 64);
	VALUE("errorStringFits", MPI_MAX_ERROR_STRING <= 512);
	VALUE("versionFits", MPI_MAX_LIBRARY_VERSION_STRING <= 8192);
	return 0;
}
