package cuda

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// cuFileABI is what testdata/abi/cufile.c printed with the vendor's header.
//
//go:embed testdata/abi/cufile.txt
var cuFileABI []byte

func TestCuFileABI(t *testing.T) {
	var (
		descr fileDescr
		props fileProps
		moved movedFile
	)
	bound := map[string]uintptr{
		"fileHandleFD":   fileHandleFD,
		"fileNVMeBit":    fileNVMeBit,
		"fileNVMeP2PBit": fileNVMeP2PBit,

		// checkFile relies on these.
		"sizeof(result)":          8,
		"offsetof(result.code)":   0,
		"offsetof(result.driver)": 4,

		"sizeof(movedFile.handle)":             unsafe.Sizeof(moved.handle),
		"sizeof(fileDescr)":                    unsafe.Sizeof(descr),
		"offsetof(fileDescr.kind)":             unsafe.Offsetof(descr.kind),
		"offsetof(fileDescr.handle)":           unsafe.Offsetof(descr.handle),
		"offsetof(fileDescr.handle.fd)":        unsafe.Offsetof(descr.handle) + unsafe.Offsetof(descr.handle.fd),
		"offsetof(fileDescr.ops)":              unsafe.Offsetof(descr.ops),
		"sizeof(fileProps)":                    unsafe.Sizeof(props),
		"offsetof(fileProps.nvfs)":             unsafe.Offsetof(props.nvfs),
		"offsetof(fileProps.nvfs.statusFlags)": unsafe.Offsetof(props.nvfs) + unsafe.Offsetof(props.nvfs.statusFlags),
	}
	testkit.ABI(t, cuFileABI, bound)
}
