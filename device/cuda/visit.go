package cuda

import (
	"runtime"
	"unsafe"
)

// Visit calls fn on a thread that is somebody else's, such as that of a C program
// which has called Go, and leaves the thread's context and its mode beside
// captures as they were. It costs four calls of the driver, and where there is no
// driver nothing.
func Visit(fn func()) {
	if !api.ctxGetCurrent.Ok() {
		fn()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	word := words.Get().(*[2]uint64)
	*word = [2]uint64{}
	if api.ctxGetCurrent.Call4(uintptr(unsafe.Pointer(word)), 0, 0, 0) != 0 {
		word[0] = 0 // a driver that is not initialised: there is none yet
	}
	context := uintptr(word[0])
	words.Put(word)
	mode := exchange(captureRelaxed)
	defer func() {
		exchange(mode)
		api.ctxSetCurrent.Call4(context, 0, 0, 0)
	}()
	fn()
}
