package cusparselt

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// api is the part of cuSPARSELt that Pinion calls.
var api struct {
	getProperty, init, destroy               dl.Func
	denseInit, structuredInit, matrixDestroy dl.Func
	matmulInit, selectionInit                dl.Func
	selectionDestroy                         dl.Func // from 0.8 on
	planInit, planDestroy, getWorkspace      dl.Func
	compressedSize, compress, pruneCheck     dl.Func
	matmul, search                           dl.Func
}

// Values of cusparseLt.h and the headers it includes. testdata/abi/abi.cc prints them.
const (
	statusNotInitialized        = 1
	statusAllocFailed           = 2
	statusInvalidValue          = 3
	statusArchMismatch          = 4
	statusTypeNotSupported      = 8
	statusNotSupported          = 10
	statusInsufficientResources = 11

	typeF16  = 2  // CUDA_R_16F
	typeBF16 = 14 // CUDA_R_16BF

	computeF32 = 2 // CUSPARSE_COMPUTE_32F

	orderColumn = 1

	opNone      = 0
	opTranspose = 1

	sparsityHalf     = 0 // CUSPARSELT_SPARSITY_50_PERCENT
	algorithmDefault = 0

	propertyMajor = 0
	propertyMinor = 1
	propertyPatch = 2
)

// objectBytes is the room that each of the library's objects is given. Callers own them:
// the library fills them in, and has pointers from one to another. They have 512 bytes,
// and had 11,024 in old versions.
const objectBytes = 11264

// objectAlign is what addresses of objects are multiples of, and objectBytes is one.
const objectAlign = 16

// minVersion is the oldest version that is accepted: older ones number computation
// types otherwise.
const minVersion = 700

// library is [load], once for the process.
var library = dl.Bind("cuSPARSELt", "products with 2:4 sparse matrices on the GPU", load)

// load loads cuSPARSELt and returns the file and its version.
func load() (file string, version int, err error) {
	files := map[string][]string{
		"linux":   {"libcusparseLt.so.0", "/usr/local/cuda/lib64/libcusparseLt.so.0"},
		"windows": {"cusparseLt.dll"},
	}[runtime.GOOS]
	if runtime.GOOS == "linux" {
		files = append(files, dl.Wheels("cusparselt", "libcusparseLt.so.0")...)
	}
	file, err = dl.Open(dl.Library{
		Name:  "cusparseLt",
		Files: files,
		Symbols: []dl.Symbol{
			{Name: "cusparseLtGetProperty", Func: &api.getProperty},
			{Name: "cusparseLtInit", Func: &api.init},
			{Name: "cusparseLtDestroy", Func: &api.destroy},
			{Name: "cusparseLtDenseDescriptorInit", Func: &api.denseInit},
			{Name: "cusparseLtStructuredDescriptorInit", Func: &api.structuredInit},
			{Name: "cusparseLtMatDescriptorDestroy", Func: &api.matrixDestroy},
			{Name: "cusparseLtMatmulDescriptorInit", Func: &api.matmulInit},
			{Name: "cusparseLtMatmulAlgSelectionInit", Func: &api.selectionInit},
			{Name: "cusparseLtMatmulAlgSelectionDestroy", Func: &api.selectionDestroy, Optional: true},
			{Name: "cusparseLtMatmulPlanInit", Func: &api.planInit},
			{Name: "cusparseLtMatmulPlanDestroy", Func: &api.planDestroy},
			{Name: "cusparseLtMatmulGetWorkspace", Func: &api.getWorkspace},
			{Name: "cusparseLtSpMMACompressedSize2", Func: &api.compressedSize},
			{Name: "cusparseLtSpMMACompress2", Func: &api.compress},
			{Name: "cusparseLtSpMMAPruneCheck2", Func: &api.pruneCheck},
			{Name: "cusparseLtMatmul", Func: &api.matmul},
			{Name: "cusparseLtMatmulSearch", Func: &api.search},
		},
	})
	if err != nil {
		return "", 0, fmt.Errorf("cusparselt: %w: no cuSPARSELt library: %w", device.ErrNotSupported, err)
	}
	for property, unit := range map[uintptr]int{propertyMajor: 10000, propertyMinor: 100, propertyPatch: 1} {
		var value int32
		if err := check("cusparseLtGetProperty", api.getProperty.Call(property, uintptr(unsafe.Pointer(&value)))); err != nil {
			return "", 0, fmt.Errorf("cusparselt: %w", err)
		}
		version += unit * int(value)
	}
	if version < minVersion {
		return "", 0, fmt.Errorf("cusparselt: %w: %s is version %s; %s or newer is needed",
			device.ErrNotSupported, file, dl.VersionText(version), dl.VersionText(minVersion))
	}
	return file, version, nil
}

// Error is a failed call of the library. [errors.Is] matches it with the sentinel of the
// same meaning of package device.
type Error struct {
	Call   string // such as "cusparseLtMatmul"
	Status int    // cusparseStatus_t
}

// statusNames are those of cusparseStatus_t without their prefix.
var statusNames = map[int]string{statusNotInitialized: "NOT_INITIALIZED", statusAllocFailed: "ALLOC_FAILED",
	statusInvalidValue: "INVALID_VALUE", statusArchMismatch: "ARCH_MISMATCH", 5: "MAPPING_ERROR", 6: "EXECUTION_FAILED",
	7: "INTERNAL_ERROR", statusTypeNotSupported: "MATRIX_TYPE_NOT_SUPPORTED", 9: "ZERO_PIVOT",
	statusNotSupported: "NOT_SUPPORTED", statusInsufficientResources: "INSUFFICIENT_RESOURCES"}

func (e *Error) Error() string {
	name, ok := statusNames[e.Status]
	if !ok {
		return fmt.Sprintf("%s: unknown status (%d)", e.Call, e.Status)
	}
	return fmt.Sprintf("%s: CUSPARSE_STATUS_%s (%d)", e.Call, name, e.Status)
}

// Is makes errors.Is(err, device.ErrNotSupported) and the like work.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case statusAllocFailed, statusInsufficientResources:
		return target == device.ErrOutOfMemory
	case statusInvalidValue:
		return target == device.ErrArgument
	case statusArchMismatch, statusTypeNotSupported, statusNotSupported:
		return target == device.ErrNotSupported
	}
	return false
}

func check(call string, result uintptr) error {
	if status := int(int32(result)); status != 0 {
		return &Error{Call: call, Status: status}
	}
	return nil
}
