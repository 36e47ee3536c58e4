package auto

import (
	"os"
	"os/exec"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// standIns take the place of the driver, of cuSPARSELt and of cuBLASLt, unless
// PINION_DEVICE names a device.
var standIns = testkit.StandIns{Libraries: []string{"cusparseLt", "cublasLt"},
	Sources: []string{"../cusparselt/testdata/fakecusparselt/fakecusparselt.c", "../cublaslt/testdata/fakecublaslt/fakecublaslt.c",
		"../../device/cuda/testdata/fakecuda/fakecuda.c"}}

func TestMain(m *testing.M) { os.Exit(standIns.Run(m)) }

func open(t *testing.T) blas.BLAS {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	dev := devicetest.Open(t)
	if n, ok := device.As[device.Native](dev); !ok || n.API() != device.CUDA {
		t.Skip("not a CUDA device")
	}
	b, err := Open(dev)
	testkit.OK(t, err)
	return b
}

var sparse = blas.Gemm{M: 16, N: 32, K: 64, Alpha: 1, Type: dtype.BF16}

// TestSparse: on CUDA, 2:4 sparse products are there beside the others, until the end.
func TestSparse(t *testing.T) {
	b := open(t)
	if _, ok := b.(blas.Tuner); !ok {
		t.Error("it tunes nothing")
	}
	s := b.(blas.Sparser)
	p, err := s.Sparse(sparse)
	if err != nil {
		testkit.OK(t, b.Close())
		t.Skip(err)
	}
	if p.CompressedBytes() == 0 {
		t.Error("a matrix is compressed to nothing")
	}
	g := sparse
	g.M = 17
	if p, err := s.Sparse(g); p != nil || err == nil {
		t.Errorf("%v, %v for 17 rows", p, err)
	}
	testkit.OK(t, b.Close())
	testkit.OK(t, b.Close())
	_, err = s.Sparse(sparse)
	testkit.WantError(t, "closed", err, device.ErrClosed, "blas: ")
}

// TestWithoutSparse: without cuSPARSELt, the others are there all the same. A process of
// its own finds none.
func TestWithoutSparse(t *testing.T) {
	const inChild = "BLAS_TEST_WITHOUT_SPARSE"
	if os.Getenv(inChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWithoutSparse$", "-test.v")
		cmd.Env = append(os.Environ(), inChild+"=1", "PINION_LIB_CUSPARSELT=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	b := open(t)
	_, err := b.(blas.Sparser).Sparse(sparse)
	testkit.WantError(t, "no library", err, device.ErrNotSupported, "no cuSPARSELt library")
	testkit.OK(t, b.Close())
}
