package mpi

import (
	"bytes"
	_ "embed"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// What testdata/abi/abi.c printed with the headers of the two libraries.
var (
	//go:embed testdata/abi/openmpi.txt
	abiOpenMPI []byte
	//go:embed testdata/abi/mpich.txt
	abiMPICH []byte
)

var mpichNames = [handleCount]string{"MPI_COMM_WORLD", "MPI_ERRORS_RETURN", "MPI_BYTE",
	"MPI_INT8_T", "MPI_UINT8_T", "MPI_INT32_T", "MPI_UINT32_T", "MPI_INT64_T", "MPI_UINT64_T",
	"MPI_FLOAT", "MPI_DOUBLE", "MPI_SUM", "MPI_PROD", "MPI_MIN", "MPI_MAX"}

// TestABI compares the values that the binding is written with to those of the headers:
// as they were printed, and those of this machine.
func TestABI(t *testing.T) {
	undefinedInt := int32(undefined)
	common := func(inPlace, truncate, handle uintptr) map[string]uintptr {
		return map[string]uintptr{
			"inPlace": inPlace, "errTruncate": truncate, "undefined": uintptr(uint32(undefinedInt)),
			"threadFunneled": threadFunneled, "threadMultiple": threadMultiple,
			"sizeof(handle)": handle, "sizeof(request)": handle,
			"statusFits": 1, "errorStringFits": 1, "versionFits": 1,
		}
	}
	openMPI := common(openMPIInPlace, openMPIErrTruncate, 8)
	mpich := common(mpichInPlace, mpichErrTruncate, 4)
	for i := range handleCount {
		openMPI[openMPIHandles[i]] = 1
		mpich[mpichNames[i]] = uintptr(mpichHandles[i])
	}
	for _, c := range []struct {
		name    string
		header  []byte
		bound   map[string]uintptr
		wrapper string
	}{
		{"Open MPI", abiOpenMPI, openMPI, "mpicc.openmpi"},
		{"MPICH", abiMPICH, mpich, "mpicc.mpich"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.ABI(t, c.header, c.bound)
			if _, err := exec.LookPath(c.wrapper); err != nil {
				t.Logf("not compared with the header: %s is not installed", c.wrapper)
				return
			}
			file := filepath.Join(t.TempDir(), "abi")
			out, err := exec.Command(c.wrapper, "-o", file, "testdata/abi/abi.c").CombinedOutput()
			if bytes.Contains(out, []byte("mpi.h: No such file")) {
				t.Logf("not compared with the header, which is not installed")
				return
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			out, err = exec.Command(file).Output()
			testkit.OK(t, err)
			testkit.ABI(t, out, c.bound)
		})
	}
}
