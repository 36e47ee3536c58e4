package cupti

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// demangler is what the C++ library reads names with. PyTorch has brought it.
var demangler = sync.OnceValue(func() (f struct{ demangle, free dl.Func }) {
	if runtime.GOOS != "linux" {
		return f
	}
	// Without it names stay as they are.
	_, err := dl.Open(dl.Library{Name: "stdc++", Files: []string{"libstdc++.so.6"}, Symbols: []dl.Symbol{{Name: "__cxa_demangle", Func: &f.demangle}}})
	if err == nil {
		_, err = dl.Open(dl.Library{Name: "c", Files: []string{"libc.so.6"}, Symbols: []dl.Symbol{{Name: "free", Func: &f.free}}})
	}
	if err != nil {
		f.demangle = 0
	}
	return f
})

// Demangle is the name of a C++ function as people write it, with its arguments: of
// "_Z1fi" it is "f(int)". Other names, and all where there is no C++ library, stay.
func Demangle(name string) string {
	if !strings.HasPrefix(name, "_Z") {
		return name
	}
	f := demangler()
	if !f.demangle.Ok() {
		return name
	}
	p := f.demangle.Call(uintptr(unsafe.Pointer(dl.CString(name))), 0, 0, 0)
	if p == 0 {
		return name
	}
	defer f.free.Call(p)
	return dl.GoString(p)
}
