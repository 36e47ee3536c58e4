package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/parallel"
)

// library is an MPI library: its functions, and its handles, of which Open MPI has the
// addresses of symbols, and MPICH numbers.
type library struct {
	initialized, initThread, queryThread, finalize         dl.Func
	commRank, commSize, commSplit, commFree, setHandler    dl.Func
	iallreduce, ireduceScatter, iallgather, ibcast         dl.Func
	ibarrier, isend, irecv, test, iprobe, getCount         dl.Func
	errorString, errorClass, libraryVersion, yield, usleep dl.Func
	handles                                                [handleCount]dl.Func
	inPlace                                                uintptr
	errTruncate                                            int32
	version                                                string // its first line
}

// Handles.
const (
	commWorld = iota
	errorsReturn
	typeByte
	typeInt8
	typeUint8
	typeInt32
	typeUint32
	typeInt64
	typeUint64
	typeFloat
	typeDouble
	opSum
	opProd
	opMin
	opMax
	handleCount
)

var openMPIHandles = [handleCount]string{"ompi_mpi_comm_world", "ompi_mpi_errors_return", "ompi_mpi_byte",
	"ompi_mpi_int8_t", "ompi_mpi_uint8_t", "ompi_mpi_int32_t", "ompi_mpi_uint32_t", "ompi_mpi_int64_t", "ompi_mpi_uint64_t",
	"ompi_mpi_float", "ompi_mpi_double", "ompi_mpi_op_sum", "ompi_mpi_op_prod", "ompi_mpi_op_min", "ompi_mpi_op_max"}

var mpichHandles = [handleCount]dl.Func{0x44000000, 0x54000001, 0x4c00010d,
	0x4c000137, 0x4c00013b, 0x4c000439, 0x4c00043d, 0x4c00083a, 0x4c00083e,
	0x4c00040a, 0x4c00080b, 0x58000003, 0x58000004, 0x58000002, 0x58000001}

// Other constants, of both or of one.
const (
	undefined      = -32766
	threadFunneled = 1
	threadMultiple = 3

	openMPIInPlace     = 1
	openMPIErrTruncate = 15
	mpichInPlace       = ^uintptr(0)
	mpichErrTruncate   = 14

	statusBytes  = 64 // at least those of MPI_Status
	errorBytes   = 512
	versionBytes = 8192
)

var types = map[dtype.DType]int{
	dtype.I8: typeInt8, dtype.U8: typeUint8, dtype.I32: typeInt32, dtype.U32: typeUint32,
	dtype.I64: typeInt64, dtype.U64: typeUint64, dtype.F32: typeFloat, dtype.F64: typeDouble,
}

var ops = map[parallel.Op]int{
	parallel.Sum: opSum, parallel.Prod: opProd, parallel.Min: opMin, parallel.Max: opMax, parallel.Avg: opSum,
}

func (l *library) symbols() []dl.Symbol {
	list := []dl.Symbol{
		{Name: "MPI_Initialized", Func: &l.initialized},
		{Name: "MPI_Init_thread", Func: &l.initThread},
		{Name: "MPI_Query_thread", Func: &l.queryThread},
		{Name: "MPI_Finalize", Func: &l.finalize},
		{Name: "MPI_Comm_rank", Func: &l.commRank},
		{Name: "MPI_Comm_size", Func: &l.commSize},
		{Name: "MPI_Comm_split", Func: &l.commSplit},
		{Name: "MPI_Comm_free", Func: &l.commFree},
		{Name: "MPI_Comm_set_errhandler", Func: &l.setHandler},
		{Name: "MPI_Iallreduce", Func: &l.iallreduce},
		{Name: "MPI_Ireduce_scatter_block", Func: &l.ireduceScatter},
		{Name: "MPI_Iallgather", Func: &l.iallgather},
		{Name: "MPI_Ibcast", Func: &l.ibcast},
		{Name: "MPI_Ibarrier", Func: &l.ibarrier},
		{Name: "MPI_Isend", Func: &l.isend},
		{Name: "MPI_Irecv", Func: &l.irecv},
		{Name: "MPI_Test", Func: &l.test},
		{Name: "MPI_Iprobe", Func: &l.iprobe},
		{Name: "MPI_Get_count", Func: &l.getCount},
		{Name: "MPI_Error_string", Func: &l.errorString},
		{Name: "MPI_Error_class", Func: &l.errorClass},
		{Name: "MPI_Get_library_version", Func: &l.libraryVersion},
		{Name: "sched_yield", Func: &l.yield}, // these are libc's
		{Name: "usleep", Func: &l.usleep},
	}
	for i, name := range openMPIHandles {
		list = append(list, dl.Symbol{Name: name, Func: &l.handles[i], Optional: true})
	}
	return list
}

// Where the libraries are. Every library that keeps MPICH's ABI is called libmpi.so.12,
// but on Debian.
var (
	openMPIFiles = []string{"libmpi.so.40"}
	mpichFiles   = []string{"libmpich.so.12", "libmpi.so.12"}
)

// load loads the library of the launcher that started this process, or else the first.
var load = dl.Bind("MPI", "ranks that mpirun or srun starts", func() (string, *library, error) {
	// UCX would take signals that Go needs: a nil pointer is a panic.
	if _, set := os.LookupEnv("UCX_ERROR_SIGNALS"); !set {
		os.Setenv("UCX_ERROR_SIGNALS", "")
	}
	l := &library{}
	lib := dl.Library{Name: "mpi", Symbols: l.symbols()}
	if runtime.GOOS == "linux" {
		lib.Files = append(openMPIFiles[:1:1], mpichFiles...)
		if launched, ok := launcher(os.Getenv); ok && launched.mpich {
			lib.Files = append(mpichFiles[:2:2], openMPIFiles...)
		}
	}
	file, err := dl.Open(lib)
	if err != nil {
		return "", nil, fmt.Errorf("mpi: %w: none of %s can be loaded (%w); openmpi-bin or mpich of Debian has one",
			ErrUnavailable, strings.Join(lib.Files, ", "), err)
	}
	var text [versionBytes]byte
	var n int32
	l.libraryVersion.Call(uintptr(unsafe.Pointer(&text)), uintptr(unsafe.Pointer(&n)))
	l.version, _, _ = strings.Cut(strings.TrimSpace(string(text[:n])), "\n")
	l.version = strings.Join(strings.Fields(strings.Trim(l.version, "\x00")), " ")
	switch {
	case l.handles[commWorld].Ok():
		l.inPlace, l.errTruncate = openMPIInPlace, openMPIErrTruncate // its plugins find its symbols from 3.0 on
	case strings.Contains(l.version, "MPICH") || strings.Contains(l.version, "Intel"):
		l.handles, l.inPlace, l.errTruncate = mpichHandles, mpichInPlace, mpichErrTruncate
	default:
		err = errors.New("it is neither Open MPI nor of the ABI of MPICH")
	}
	if err != nil {
		return "", nil, fmt.Errorf("mpi: %w: %s (%s): %w", ErrUnavailable, file, l.version, err)
	}
	return file, l, nil
})

// handle is the argument for a communicator, type, operation or error handler.
func (l *library) handle(i int) uintptr { return uintptr(l.handles[i]) }

// check makes an error of what a function returned.
func (l *library) check(call string, code uintptr) error {
	if int32(code) == 0 {
		return nil
	}
	var text [errorBytes]byte
	var n, class int32
	l.errorString.Call(code, uintptr(unsafe.Pointer(&text)), uintptr(unsafe.Pointer(&n)))
	l.errorClass.Call(code, uintptr(unsafe.Pointer(&class)))
	err := fmt.Errorf("mpi: %s: %s", call, strings.TrimRight(string(text[:n]), "\x00\n"))
	if class == l.errTruncate {
		err = fmt.Errorf("%w: %w", parallel.ErrMismatch, err)
	}
	return err
}

// integer is an argument of type int.
func integer(n int) uintptr { return uintptr(uint32(int32(n))) }
