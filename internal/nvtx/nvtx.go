// Package nvtx tells tools such as Nsight Systems what the process is at, as ranges of
// NVTX, version 3.
//
// NVTX has no library: its headers put into each program a table of functions, and load
// the tool that the environment variable NVTX_INJECTION64_PATH names, which fills the
// table in. This package does the same without C. Where the variable is not set nothing
// is loaded, and [Wanted] is false.
package nvtx

import (
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pinion-gpu/pinion/internal/dl"
)

const variable = "NVTX_INJECTION64_PATH"

// Wanted reports whether a tool wants to hear of ranges.
func Wanted() bool { return os.Getenv(variable) != "" }

// Start begins a range, which may end on another thread. It returns its number, or 0
// where there is no tool. The first one loads the tool.
func Start(name string) uint64 {
	t := tool()
	if t == nil {
		return 0
	}
	a := attributes{version: version, size: uint16(unsafe.Sizeof(attributes{})), messageType: messageASCII, message: t.text(name)}
	// The tool reads it during the call.
	return uint64(t.start.Call(t.domain, uintptr(unsafe.Pointer(&a))))
}

// End ends a range.
func End(id uint64) {
	if t := tool(); t != nil && id != 0 {
		t.end.Call4(t.domain, uintptr(id), 0, 0)
	}
}

// injected is a tool.
type injected struct {
	start, end dl.Func
	domain     uintptr

	mu    sync.Mutex
	texts map[string]uintptr
}

// mostTexts bounds the names that are kept: users give some of them.
const mostTexts = 1 << 14

// text is a name as C has it. The tool may keep the address, so it stays.
func (t *injected) text(name string) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.texts[name]
	if !ok {
		if len(t.texts) >= mostTexts {
			if p, ok = t.texts["others"]; ok {
				return p
			}
			name = "others"
		}
		b := dl.CString(name)
		kept = append(kept, b)
		p = uintptr(unsafe.Pointer(b))
		t.texts[name] = p
	}
	return p
}

// kept keeps texts from the collector.
var kept []*byte

// tool is the tool, once it was loaded; nil: there is none, or it does not work.
var tool = sync.OnceValue(func() *injected {
	if !Wanted() {
		return nil
	}
	var initialise dl.Func
	_, err := dl.Open(dl.Library{
		Name: "nvtx", Files: []string{os.Getenv(variable)},
		Symbols: []dl.Symbol{{Name: "InitializeInjectionNvtx2", Func: &initialise}},
	})
	if err != nil {
		return nil
	}
	makeTables()
	if int32(initialise.Call(purego.NewCallback(exportTable))) == 0 {
		return nil
	}
	t := &injected{start: dl.Func(slots[moduleCore2][domainRangeStartEx]), end: dl.Func(slots[moduleCore2][domainRangeEnd]), texts: map[string]uintptr{}}
	if !t.start.Ok() || !t.end.Ok() {
		return nil
	}
	if create := dl.Func(slots[moduleCore2][domainCreateA]); create.Ok() {
		t.domain = create.Call(t.text("Pinion"))
	}
	return t
})
