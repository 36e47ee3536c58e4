package cupti

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
)

var (
	// ErrBusy: another profiler uses CUPTI in this process, or another [Tracer] does.
	ErrBusy = errors.New("another profiler uses CUPTI")
	// ErrVersion: the records of this version of CUPTI are not known.
	ErrVersion = errors.New("unknown version of CUPTI")
)

// Values of CUptiResult.
const (
	codeLimitReached        = 12 // no more records, and a second subscriber before CUDA 11.2
	codeMultipleSubscribers = 39
)

// Error is a call that failed.
type Error struct {
	Call string // "cuptiActivityEnable"
	Code int    // of CUptiResult
	Text string // the library's name of it
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, e.Code) }

// Is makes a second subscriber [ErrBusy].
func (e *Error) Is(target error) bool {
	return target == ErrBusy && (e.Code == codeMultipleSubscribers || e.Code == codeLimitReached && e.Call == "cuptiSubscribe")
}

// api is the table of the library.
type api struct {
	version, resultString       dl.Func
	subscribe, unsubscribe      dl.Func
	register, enable, disable   dl.Func
	flush, next, dropped, clock dl.Func
	streamID                    dl.Func
}

// library loads CUPTI, once for the process.
var library = dl.Bind("CUPTI", "work of other libraries on timelines", func() (string, *api, error) {
	a := &api{}
	file, err := dl.Open(dl.Library{
		Name:  "cupti",
		Files: files(),
		Symbols: []dl.Symbol{
			{Name: "cuptiGetVersion", Func: &a.version},
			{Name: "cuptiGetResultString", Func: &a.resultString},
			{Name: "cuptiSubscribe", Func: &a.subscribe},
			{Name: "cuptiUnsubscribe", Func: &a.unsubscribe},
			{Name: "cuptiActivityRegisterCallbacks", Func: &a.register},
			{Name: "cuptiActivityEnable", Func: &a.enable},
			{Name: "cuptiActivityDisable", Func: &a.disable},
			{Name: "cuptiActivityFlushAll", Func: &a.flush},
			{Name: "cuptiActivityGetNextRecord", Func: &a.next},
			{Name: "cuptiActivityGetNumDroppedRecords", Func: &a.dropped},
			{Name: "cuptiGetTimestamp", Func: &a.clock},
			{Name: "cuptiGetStreamIdEx", Func: &a.streamID},
		},
	})
	if err != nil {
		return "", nil, err
	}
	version := new(uint32)
	if err := a.check("cuptiGetVersion", a.version.Call(uintptr(unsafe.Pointer(version)))); err != nil {
		return "", nil, err
	}
	if !known(*version) {
		return "", nil, fmt.Errorf("%w: %s is %d, known are those of CUDA 12 and 13", ErrVersion, file, *version)
	}
	return file, a, nil
})

// known reports whether the records of a version of CUPTI are known. CUDA 11.8 and 12.0
// have 18, 12.9 has 28; since CUDA 13.0, which has 130001, the number is that of CUDA.
func known(version uint32) bool {
	return version >= 18 && version < 100 || version >= 130_000 && version < 140_000
}

// files are where CUPTI may be. One that the process has already comes first: two would
// get in each other's way.
func files() []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	var list []string
	if path := dl.Path("libcupti.so"); strings.HasPrefix(path, "/") {
		list = append(list, path)
	}
	names := []string{"libcupti.so.13", "libcupti.so.12", "libcupti.so"}
	list = append(list, names...)
	for _, root := range []string{os.Getenv("CUDA_HOME"), "/usr/local/cuda"} {
		for _, below := range []string{"extras/CUPTI/lib64", "lib64"} {
			for _, name := range names {
				if root != "" {
					list = append(list, filepath.Join(root, below, name))
				}
			}
		}
	}
	return list
}

// check turns what a function returned into an error.
func (a *api) check(call string, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	text := new(uintptr)
	e := &Error{call, code, "unknown error"}
	if a.resultString.Call(uintptr(code), uintptr(unsafe.Pointer(text))) == 0 && *text != 0 {
		e.Text = dl.GoString(*text)
	}
	return e
}

// Open loads CUPTI, once for the process; [Start] does so itself. The error says why
// there is none.
func Open() error {
	_, err := library()
	return err
}
