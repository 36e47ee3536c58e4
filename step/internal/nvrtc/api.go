package nvrtc

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// function is one function of the library, with its name for errors.
type function struct {
	name string
	dl.Func
}

// api is the part of NVRTC that Pinion calls.
type api struct {
	version, errorString             function
	architectures, architectureCount function
	create, destroy, compile         function
	logSize, log                     function
	ptxSize, ptx, cubinSize, cubin   function

	file         string
	major, minor int
	arches       []int // that it compiles for, such as 90, in order
}

const (
	codeCompilation = 6       // NVRTC_ERROR_COMPILATION
	minMajor        = 12      // the oldest CUDA that is accepted
	mostBytes       = 1 << 30 // of a log or an image: a size beyond that is no size
)

// library loads NVRTC, once for the process.
var library = dl.Bind("NVRTC", "kernels of a training step, compiled for it", load)

func load() (file string, a *api, err error) {
	a = &api{}
	var symbols []dl.Symbol
	for _, s := range []struct {
		f    *function
		name string
	}{
		{&a.version, "nvrtcVersion"},
		{&a.errorString, "nvrtcGetErrorString"},
		{&a.architectureCount, "nvrtcGetNumSupportedArchs"},
		{&a.architectures, "nvrtcGetSupportedArchs"},
		{&a.create, "nvrtcCreateProgram"},
		{&a.destroy, "nvrtcDestroyProgram"},
		{&a.compile, "nvrtcCompileProgram"},
		{&a.logSize, "nvrtcGetProgramLogSize"},
		{&a.log, "nvrtcGetProgramLog"},
		{&a.ptxSize, "nvrtcGetPTXSize"},
		{&a.ptx, "nvrtcGetPTX"},
		{&a.cubinSize, "nvrtcGetCUBINSize"},
		{&a.cubin, "nvrtcGetCUBIN"},
	} {
		s.f.name = s.name
		symbols = append(symbols, dl.Symbol{Name: s.name, Func: &s.f.Func})
	}
	file, err = dl.Open(dl.Library{
		Name: "nvrtc",
		Files: map[string][]string{
			"linux":   {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"},
			"windows": {"nvrtc64_130_0.dll", "nvrtc64_120_0.dll"},
		}[runtime.GOOS],
		Symbols: symbols,
	})
	if err != nil {
		return "", nil, fmt.Errorf("nvrtc: %w: no NVRTC library: %w", device.ErrNotSupported, err)
	}
	var major, minor int32
	if err := a.call(a.version, uintptr(unsafe.Pointer(&major)), uintptr(unsafe.Pointer(&minor))); err != nil {
		return "", nil, err
	}
	if major < minMajor {
		return "", nil, fmt.Errorf("nvrtc: %w: %s is of CUDA %d.%d; %d.0 or newer is needed", device.ErrNotSupported, file, major, minor, minMajor)
	}
	a.file, a.major, a.minor = file, int(major), int(minor)
	var count int32
	if err := a.call(a.architectureCount, uintptr(unsafe.Pointer(&count))); err != nil {
		return "", nil, err
	}
	if count < 1 || count > 1000 {
		return "", nil, fmt.Errorf("nvrtc: %w: %s compiles for %d architectures", device.ErrNotSupported, file, count)
	}
	list := make([]int32, count)
	if err := a.call(a.architectures, uintptr(unsafe.Pointer(&list[0]))); err != nil {
		return "", nil, err
	}
	for _, arch := range list {
		a.arches = append(a.arches, int(arch))
	}
	slices.Sort(a.arches)
	return file, a, nil
}

// call calls a function that returns an nvrtcResult. Pointers go in as to
// [dl.Func.Call].
//
//go:uintptrescapes
func (a *api) call(f function, args ...uintptr) error {
	if code := int32(f.Call(args...)); code != 0 {
		return &Error{Call: f.name, Code: int(code), Reason: dl.GoString(a.errorString.Call(uintptr(code)))}
	}
	return nil
}

// Error is a failed call of the library.
type Error struct {
	Call   string // such as "nvrtcCompileProgram"
	Code   int    // nvrtcResult
	Reason string // of the library
	Log    string // of the compiler, where a source does not compile
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s: %s (code %d)", e.Call, e.Reason, e.Code)
	if e.Log != "" {
		text += "\n" + e.Log
	}
	return text
}
