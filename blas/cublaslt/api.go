package cublaslt

import (
	"fmt"
	"runtime"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// api is the part of cuBLASLt that Pinion calls.
var api struct {
	create, destroy, getVersion                        dl.Func
	descCreate, descDestroy, descSet                   dl.Func
	layoutCreate, layoutDestroy, layoutSet             dl.Func
	preferenceCreate, preferenceDestroy, preferenceSet dl.Func
	heuristic, configGet, matmul                       dl.Func
}

// Values of cublasLt.h and the headers it includes. testdata/abi/abi.c prints
// them.
const (
	statusNotInitialized = 1
	statusAllocFailed    = 3
	statusInvalidValue   = 7
	statusArchMismatch   = 8
	statusNotSupported   = 15

	typeF32  = 0  // CUDA_R_32F
	typeF16  = 2  // CUDA_R_16F
	typeBF16 = 14 // CUDA_R_16BF

	computeF32  = 68 // CUBLAS_COMPUTE_32F
	computeTF32 = 77 // CUBLAS_COMPUTE_32F_FAST_TF32

	opTranspose = 1

	descTransA      = 3
	descTransB      = 4
	descEpilogue    = 7
	descBiasPointer = 8

	epilogueDefault = 1
	epilogueReLU    = 2 // and so on: they are bits
	epilogueBias    = 4
	epilogueGELU    = 32

	layoutBatchCount  = 5
	layoutBatchStride = 6

	preferWorkspace  = 1
	preferReduction  = 3
	preferAlignmentA = 5
	preferAlignmentB = 6
	preferAlignmentC = 7
	preferAlignmentD = 8

	reduceComputeType = 2 // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE

	configID           = 0
	configTile         = 1
	configSplitK       = 2
	configReduction    = 3
	configSwizzling    = 4
	configCustom       = 5
	configStages       = 6
	configInnerShape   = 7
	configClusterShape = 8
)

// algorithm is cublasLtMatmulAlgo_t.
type algorithm [8]uint64

// heuristicResult is cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	algorithm      algorithm
	workspaceBytes uintptr
	state          int32
	waves          float32
	reserved       [4]int32
}

// minVersion is the oldest version that is accepted: that of CUDA 12.
const minVersion = 120000

// library is [load], once for the process.
var library = dl.Bind("cuBLASLt", "matrix products on the GPU", load)

// load loads cuBLASLt and returns the file and its version.
func load() (file string, version int, err error) {
	file, err = dl.Open(dl.Library{
		Name: "cublasLt",
		Files: map[string][]string{
			"linux": {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
				"/usr/local/cuda/lib64/libcublasLt.so"},
			"windows": {"cublasLt64_13.dll", "cublasLt64_12.dll"},
		}[runtime.GOOS],
		Symbols: []dl.Symbol{
			{Name: "cublasLtCreate", Func: &api.create},
			{Name: "cublasLtDestroy", Func: &api.destroy},
			{Name: "cublasLtGetVersion", Func: &api.getVersion},
			{Name: "cublasLtMatmulDescCreate", Func: &api.descCreate},
			{Name: "cublasLtMatmulDescDestroy", Func: &api.descDestroy},
			{Name: "cublasLtMatmulDescSetAttribute", Func: &api.descSet},
			{Name: "cublasLtMatrixLayoutCreate", Func: &api.layoutCreate},
			{Name: "cublasLtMatrixLayoutDestroy", Func: &api.layoutDestroy},
			{Name: "cublasLtMatrixLayoutSetAttribute", Func: &api.layoutSet},
			{Name: "cublasLtMatmulPreferenceCreate", Func: &api.preferenceCreate},
			{Name: "cublasLtMatmulPreferenceDestroy", Func: &api.preferenceDestroy},
			{Name: "cublasLtMatmulPreferenceSetAttribute", Func: &api.preferenceSet},
			{Name: "cublasLtMatmulAlgoGetHeuristic", Func: &api.heuristic},
			{Name: "cublasLtMatmulAlgoConfigGetAttribute", Func: &api.configGet},
			{Name: "cublasLtMatmul", Func: &api.matmul},
		},
	})
	if err != nil {
		return "", 0, fmt.Errorf("cublaslt: %w: no cuBLASLt library: %w", device.ErrNotSupported, err)
	}
	version = int(api.getVersion.Call())
	if version < minVersion {
		return "", 0, fmt.Errorf("cublaslt: %w: %s is version %s; %s or newer is needed",
			device.ErrNotSupported, file, dl.VersionText(version), dl.VersionText(minVersion))
	}
	return file, version, nil
}

// Error is a failed call of the library. [errors.Is] matches it with the
// sentinel of the same meaning of package device.
type Error struct {
	Call   string // such as "cublasLtMatmul"
	Status int    // cublasStatus_t
}

// statusNames are those of cublasStatus_t without their prefix.
var statusNames = map[int]string{statusNotInitialized: "NOT_INITIALIZED", statusAllocFailed: "ALLOC_FAILED",
	statusInvalidValue: "INVALID_VALUE", statusArchMismatch: "ARCH_MISMATCH", 11: "MAPPING_ERROR",
	13: "EXECUTION_FAILED", 14: "INTERNAL_ERROR", statusNotSupported: "NOT_SUPPORTED", 16: "LICENSE_ERROR"}

func (e *Error) Error() string {
	name, ok := statusNames[e.Status]
	if !ok {
		return fmt.Sprintf("%s: unknown status (%d)", e.Call, e.Status)
	}
	return fmt.Sprintf("%s: CUBLAS_STATUS_%s (%d)", e.Call, name, e.Status)
}

// Is makes errors.Is(err, device.ErrNotSupported) and the like work.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case statusAllocFailed:
		return target == device.ErrOutOfMemory
	case statusInvalidValue:
		return target == device.ErrArgument
	case statusArchMismatch, statusNotSupported:
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
