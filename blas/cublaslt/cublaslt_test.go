package cublaslt

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/blastest"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// open opens the device, or skips the test where there is none.
func open(t testing.TB) device.Device {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	dev := devicetest.Open(t)
	if n, ok := device.As[device.Native](dev); !ok || n.API() != device.CUDA {
		t.Skip("not a CUDA device")
	}
	if _, err := library(); err != nil {
		t.Skip(err)
	}
	return dev
}

func TestConformance(t *testing.T) { blastest.Run(t, open(t), Open) }

// TestRoutines: the library is asked once for each shape, and everything is
// given back.
func TestRoutines(t *testing.T) {
	dev := open(t)
	if standIns.File == "" {
		t.Skip("the stand-in counts")
	}
	var count, asked dl.Func
	_, err := dl.Open(dl.Library{Name: "fake", Files: []string{standIns.File}, Symbols: []dl.Symbol{
		{Name: "fakecublasltCount", Func: &count}, {Name: "fakecublasltAsked", Func: &asked}}})
	testkit.OK(t, err)
	before, begun := count.Call(), asked.Call()
	b, err := Open(dev)
	testkit.OK(t, err)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	at, err := dev.Alloc(1 << 20)
	testkit.OK(t, err)
	gemm := func(n int64, beta float32) {
		testkit.OK(t, b.Gemm(s, blas.Gemm{M: n, N: n, K: n, Alpha: 1, Beta: beta, Type: dtype.F32,
			A: blas.Matrix{Ptr: at}, B: blas.Matrix{Ptr: at.Add(1 << 18)}, C: blas.Matrix{Ptr: at.Add(1 << 19)}}))
	}
	for range 3 {
		gemm(4, 0)
		gemm(4, 1)
		gemm(5, 0)
	}
	if n := asked.Call() - begun; n != 2 {
		t.Errorf("the library was asked %d times for 2 shapes", n)
	}
	// An address, of a bias too, is no other shape.
	for i := range int64(4) {
		testkit.OK(t, b.Gemm(s, blas.Gemm{M: 8, N: 8, K: 8, Alpha: 1, Beta: 1, Type: dtype.F16, A: blas.Matrix{Ptr: at.Add(1024 * i)},
			B: blas.Matrix{Ptr: at.Add(1 << 18)}, C: blas.Matrix{Ptr: at.Add(1 << 19)},
			Addend: blas.Matrix{Ptr: at.Add(1<<17 + 64*i)}, Bias: at.Add(1<<16 + 64*i)}))
	}
	if n := asked.Call() - begun; n != 3 {
		t.Errorf("the library was asked %d times for 3 shapes", n)
	}
	testkit.OK(t, errors.Join(s.Close(), dev.Free(at), b.Close()))
	if n := count.Call(); n != before {
		t.Errorf("%d of the library's objects are left", n-before)
	}
}

// TestOpenOnOther: what is missing is said.
func TestOpenOnOther(t *testing.T) {
	dev, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	if _, err := Open(dev); !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "is not a CUDA device") {
		t.Error(err)
	}
}

func TestError(t *testing.T) {
	for status, kind := range map[int]error{statusAllocFailed: device.ErrOutOfMemory, statusInvalidValue: device.ErrArgument,
		statusArchMismatch: device.ErrNotSupported, statusNotSupported: device.ErrNotSupported} {
		if err := check("call", uintptr(status)); !errors.Is(err, kind) || errors.Is(err, device.ErrClosed) {
			t.Errorf("%v is no %v", err, kind)
		}
	}
	if err := check("cublasLtMatmul", 15); err.Error() != "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)" {
		t.Error(err)
	}
	if err := check("x", 99); err.Error() != "x: unknown status (99)" {
		t.Error(err)
	}
	if check("x", 0) != nil {
		t.Error("success is an error")
	}
}

func TestAlignment(t *testing.T) {
	for _, test := range []struct {
		p           device.Ptr
		batchStride int64
		want        uint32
	}{{4, 0, 4}, {6, 0, 2}, {512, 0, 64}, {96, 0, 32}, {512, 6, 8}, {512, 64, 64}} {
		if got := alignment(test.p, &blas.Stored{BatchStride: test.batchStride}, dtype.F32); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
}
