package dl

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ErrNotFound: the library, or a symbol it must have, is not there.
var ErrNotFound = errors.New("library not found")

// notFound is an ErrNotFound whose text is only the reason.
type notFound struct{ reason string }

func (e *notFound) Error() string        { return e.reason }
func (e *notFound) Is(target error) bool { return target == ErrNotFound }

// Library says where to find a library and what is needed of it.
type Library struct {
	Name    string   // for messages and the environment variable
	Files   []string // tried in order, as the dynamic loader takes them
	Symbols []Symbol
}

// Symbol is one function of a library.
type Symbol struct {
	Name     string
	Func     *Func // where its address goes
	Optional bool  // may be missing: Func then stays zero
}

// Func is the address of a C function. Zero is a function that is missing.
type Func uintptr

// Call calls the function with integer and pointer arguments (at most 32; no
// floats, and structures only as they travel in registers) and returns its
// integer result. It allocates the list of arguments; see [Func.Call4]. Calling
// a missing function panics; see [Func.Ok].
//
//go:uintptrescapes
func (f Func) Call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(uintptr(f), args...)
	return r
}

// Call4 is Call for up to four arguments, the others zero, that allocates
// nothing.
//
//go:uintptrescapes
func (f Func) Call4(a, b, c, d uintptr) uintptr {
	args := argLists.Get().(*[4]uintptr)
	*args = [4]uintptr{a, b, c, d}
	r, _, _ := purego.SyscallN(uintptr(f), args[:]...)
	argLists.Put(args)
	return r
}

// argLists holds lists of arguments: purego's is on the heap.
var argLists = sync.Pool{New: func() any { return new([4]uintptr) }}

// Ok reports whether the library has the function.
func (f Func) Ok() bool { return f != 0 }

// Open loads the library and fills in the functions of its symbols. It fails
// with [ErrNotFound] when no file could be loaded or a required symbol is
// missing, and then leaves every function zero. The library stays loaded for
// the life of the process. It returns the file that was loaded.
func Open(lib Library) (string, error) {
	for _, s := range lib.Symbols {
		*s.Func = 0
	}
	files := lib.Files
	variable := "PINION_LIB_" + strings.ToUpper(lib.Name)
	switch override := os.Getenv(variable); override {
	case "":
	case "off":
		return "", &notFound{"switched off by " + variable}
	default:
		files = []string{override}
	}
	if len(files) == 0 {
		return "", &notFound{lib.Name + " does not exist for " + runtime.GOOS}
	}
	handle, file, err := load(files)
	if err != nil {
		return "", &notFound{err.Error()}
	}
	var missing []string
	for _, s := range lib.Symbols {
		addr, err := symbol(handle, s.Name)
		if err != nil && !s.Optional {
			missing = append(missing, s.Name)
		}
		*s.Func = Func(addr)
	}
	if len(missing) > 0 {
		for _, s := range lib.Symbols {
			*s.Func = 0
		}
		const named = 3
		more := ""
		if len(missing) > named {
			more = fmt.Sprintf(" and %d more", len(missing)-named)
			missing = missing[:named]
		}
		return "", &notFound{fmt.Sprintf("%s lacks %s%s", file, strings.Join(missing, ", "), more)}
	}
	return file, nil
}

func load(files []string) (handle uintptr, file string, err error) {
	var first error
	for _, f := range files {
		handle, err := open(f)
		if err == nil {
			return handle, f, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, "", first
}

// GoString copies the zero-terminated C string at p. It returns "" for zero.
func GoString(p uintptr) string {
	if p == 0 {
		return ""
	}
	s := (*byte)(Pointer(p))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(s, n))
}

// CString returns s with a terminating zero. Keep it alive during the call.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// Pointer makes a pointer of an address that C returned. The address must not
// be in the Go heap.
func Pointer(p uintptr) unsafe.Pointer {
	// Reading the address through memory is the form that vet accepts: the
	// value is foreign, so the collector's rules for uintptr do not apply.
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
