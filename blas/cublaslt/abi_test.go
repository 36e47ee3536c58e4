package cublaslt

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/abi.c printed with the vendor's header.
//
//go:embed testdata/abi/abi.txt
var abi []byte

// TestABI compares the values and layouts that the binding is written with to
// those of the vendor's header.
func TestABI(t *testing.T) {
	var (
		h heuristicResult
		r routine
	)
	bound := map[string]uintptr{
		"statusNotInitialized":                statusNotInitialized,
		"statusAllocFailed":                   statusAllocFailed,
		"statusInvalidValue":                  statusInvalidValue,
		"statusArchMismatch":                  statusArchMismatch,
		"statusNotSupported":                  statusNotSupported,
		"typeF32":                             typeF32,
		"typeF16":                             typeF16,
		"typeBF16":                            typeBF16,
		"computeF32":                          computeF32,
		"computeTF32":                         computeTF32,
		"opTranspose":                         opTranspose,
		"descTransA":                          descTransA,
		"descTransB":                          descTransB,
		"descEpilogue":                        descEpilogue,
		"descBiasPointer":                     descBiasPointer,
		"epilogueDefault":                     epilogueDefault,
		"epilogueReLU":                        epilogueReLU,
		"epilogueBias":                        epilogueBias,
		"epilogueGELU":                        epilogueGELU,
		"epilogueReLU|epilogueBias":           epilogueReLU | epilogueBias,
		"epilogueGELU|epilogueBias":           epilogueGELU | epilogueBias,
		"layoutBatchCount":                    layoutBatchCount,
		"layoutBatchStride":                   layoutBatchStride,
		"preferWorkspace":                     preferWorkspace,
		"preferReduction":                     preferReduction,
		"preferAlignmentA":                    preferAlignmentA,
		"preferAlignmentB":                    preferAlignmentB,
		"preferAlignmentC":                    preferAlignmentC,
		"preferAlignmentD":                    preferAlignmentD,
		"reduceComputeType":                   reduceComputeType,
		"configID":                            configID,
		"configTile":                          configTile,
		"configSplitK":                        configSplitK,
		"configReduction":                     configReduction,
		"configSwizzling":                     configSwizzling,
		"configCustom":                        configCustom,
		"configStages":                        configStages,
		"configInnerShape":                    configInnerShape,
		"configClusterShape":                  configClusterShape,
		"sizeof(algorithm)":                   unsafe.Sizeof(h.algorithm),
		"sizeof(heuristicResult)":             unsafe.Sizeof(h),
		"offsetof(heuristicResult.algorithm)": unsafe.Offsetof(h.algorithm),
		"offsetof(heuristicResult.workspaceBytes)": unsafe.Offsetof(h.workspaceBytes),
		"offsetof(heuristicResult.state)":          unsafe.Offsetof(h.state),
		"offsetof(heuristicResult.waves)":          unsafe.Offsetof(h.waves),
		"offsetof(heuristicResult.reserved)":       unsafe.Offsetof(h.reserved),
		"sizeof(handle)":                           unsafe.Sizeof(new(multiplier).handle),
		"sizeof(descriptor)":                       unsafe.Sizeof(r.desc),
		"sizeof(layout)":                           unsafe.Sizeof(r.a),
		"sizeof(preference)":                       unsafe.Sizeof(uintptr(0)),
	}
	testkit.ABI(t, abi, bound)
}
