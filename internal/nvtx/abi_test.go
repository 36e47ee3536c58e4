package nvtx

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/nvtx.c printed with the vendor's headers.
//
//go:embed testdata/abi/nvtx.txt
var abi []byte

func TestABI(t *testing.T) {
	var (
		a attributes
		c callbacksTable
		v versionTable
	)
	testkit.ABI(t, abi, map[string]uintptr{
		"version": version, "messageASCII": messageASCII, "tableCallbacks": tableCallbacks, "tableVersion": tableVersion,
		"moduleCore": moduleCore, "moduleCUDA": moduleCUDA, "moduleOpenCL": moduleOpenCL, "moduleCUDART": moduleCUDART,
		"moduleCore2": moduleCore2, "moduleSync": moduleSync,
		"domainRangeStartEx": domainRangeStartEx, "domainRangeEnd": domainRangeEnd, "domainCreateA": domainCreateA,
		"functions[moduleCore]":             uintptr(functions[moduleCore]),
		"functions[moduleCUDA]":             uintptr(functions[moduleCUDA]),
		"functions[moduleOpenCL]":           uintptr(functions[moduleOpenCL]),
		"functions[moduleCUDART]":           uintptr(functions[moduleCUDART]),
		"functions[moduleCore2]":            uintptr(functions[moduleCore2]),
		"functions[moduleSync]":             uintptr(functions[moduleSync]),
		"sizeof(attributes)":                unsafe.Sizeof(a),
		"offsetof(attributes.size)":         unsafe.Offsetof(a.size),
		"offsetof(attributes.category)":     unsafe.Offsetof(a.category),
		"offsetof(attributes.colorType)":    unsafe.Offsetof(a.colorType),
		"offsetof(attributes.payloadType)":  unsafe.Offsetof(a.payloadType),
		"offsetof(attributes.payload)":      unsafe.Offsetof(a.payload),
		"offsetof(attributes.messageType)":  unsafe.Offsetof(a.messageType),
		"offsetof(attributes.message)":      unsafe.Offsetof(a.message),
		"sizeof(callbacksTable)":            unsafe.Sizeof(c),
		"offsetof(callbacksTable.getTable)": unsafe.Offsetof(c.getTable),
		"sizeof(versionTable)":              unsafe.Sizeof(v),
		"offsetof(versionTable.version)":    unsafe.Offsetof(v.version),
		"offsetof(versionTable.setVersion)": unsafe.Offsetof(v.setVersion),
	})
	for _, n := range functions {
		if n > mostFunctions {
			t.Errorf("%d functions", n)
		}
	}
}
