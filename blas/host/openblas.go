package host

import (
	"runtime"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// sgemm is BLAS's routine by its Fortran name: it takes every argument by
// address, so no float has to travel in a register.
var sgemm dl.Func

// library loads OpenBLAS, once for the process.
var library = dl.Bind("OpenBLAS", "matrix products on the host backend", func() (file, same string, err error) {
	file, err = dl.Open(dl.Library{
		Name: "openblas",
		Files: map[string][]string{
			"linux":   {"libopenblas.so.0", "libopenblas.so"},
			"darwin":  {"/opt/homebrew/opt/openblas/lib/libopenblas.dylib", "/usr/local/opt/openblas/lib/libopenblas.dylib"},
			"windows": {"libopenblas.dll"},
		}[runtime.GOOS],
		Symbols: []dl.Symbol{{Name: "sgemm_", Func: &sgemm}},
	})
	return file, file, err
})

// callSgemm is c = alpha op(a) op(b) + beta c, row-major. Dimensions and
// strides are below 2^31.
//
// To BLAS, which counts by columns, a row-major matrix is its transpose. So it
// is asked for the transpose of c, which is op(b)' op(a)'.
func callSgemm(transA, transB bool, m, n, k int32, alpha float32, a []float32, lda int32, b []float32, ldb int32,
	beta float32, c []float32, ldc int32) {
	flag := func(transposed bool) byte {
		if transposed {
			return 'T'
		}
		return 'N'
	}
	flagA, flagB := flag(transA), flag(transB)
	const one = 1 // the lengths of the flags, which Fortran passes last
	sgemm.Call(
		uintptr(unsafe.Pointer(&flagB)), uintptr(unsafe.Pointer(&flagA)),
		uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&m)), uintptr(unsafe.Pointer(&k)),
		uintptr(unsafe.Pointer(&alpha)),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&ldb)),
		uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&lda)),
		uintptr(unsafe.Pointer(&beta)),
		uintptr(unsafe.Pointer(&c[0])), uintptr(unsafe.Pointer(&ldc)),
		one, one)
}
