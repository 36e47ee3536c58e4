package cusparselt

import (
	_ "embed"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/abi.cc prints with the vendor's header.
//
//go:embed testdata/abi/abi.txt
var abi []byte

// TestABI compares the values that the binding is written with to those of the vendor's
// header.
func TestABI(t *testing.T) {
	testkit.ABI(t, abi, map[string]uintptr{
		"statusNotInitialized":        statusNotInitialized,
		"statusAllocFailed":           statusAllocFailed,
		"statusInvalidValue":          statusInvalidValue,
		"statusArchMismatch":          statusArchMismatch,
		"statusTypeNotSupported":      statusTypeNotSupported,
		"statusNotSupported":          statusNotSupported,
		"statusInsufficientResources": statusInsufficientResources,
		"typeF16":                     typeF16,
		"typeBF16":                    typeBF16,
		"computeF32":                  computeF32,
		"orderColumn":                 orderColumn,
		"opNone":                      opNone,
		"opTranspose":                 opTranspose,
		"sparsityHalf":                sparsityHalf,
		"algorithmDefault":            algorithmDefault,
		"propertyMajor":               propertyMajor,
		"propertyMinor":               propertyMinor,
		"propertyPatch":               propertyPatch,
		"objectBytes":                 objectBytes,
		"objectAlign":                 objectAlign,
		// Whether the library's objects fit into objectBytes, at objectAlign.
		"fits(handle)":    1,
		"fits(matrix)":    1,
		"fits(matmul)":    1,
		"fits(selection)": 1,
		"fits(plan)":      1,
	})
	if objectBytes%objectAlign != 0 {
		t.Errorf("objects of %d bytes in a row are not at multiples of %d", objectBytes, objectAlign)
	}
}
