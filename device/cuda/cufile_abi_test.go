package cuda

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"
	"testing"
	"unsafe"
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
	lines := bufio.NewScanner(bytes.NewReader(cuFileABI))
	for lines.Scan() {
		var name string
		var want uintptr
		if _, err := fmt.Sscan(lines.Text(), &name, &want); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		got, ok := bound[name]
		if !ok {
			t.Errorf("%s: not compared", name)
		} else if got != want {
			t.Errorf("%s is %d, the header says %d", name, got, want)
		}
		delete(bound, name)
	}
	for name := range bound {
		t.Errorf("%s: the header's value is not recorded", name)
	}
}
