package cuda

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// besideCaptures says that others in the process may be capturing a graph.
var besideCaptures atomic.Bool

// BesideCaptures makes the calls of this package safe while other code in the
// process, such as PyTorch, captures a CUDA graph in the global mode. In that mode the
// driver refuses calls of all threads that might wait for captured work (those
// that allocate, register memory or ask for an event, among others), and ends the
// capture. From here on each such call is made in the relaxed mode
// (cuThreadExchangeStreamCaptureMode): Pinion never waits for a stream that it
// does not know. It costs two calls of the driver for each that it protects, so
// programs that capture nothing do without. It holds for the whole process, and does
// nothing where the driver is older than CUDA 10.1.
func BesideCaptures() { besideCaptures.Store(true) }

// relax puts this thread, which is locked, into the relaxed mode.
func relax() { exchange(captureRelaxed) }

// unrelax puts it back into the mode in which threads begin: it may be the
// program's own.
func unrelax() { exchange(captureGlobal) }

// exchange sets the mode of this thread and returns the one it had.
func exchange(mode uint64) uint64 {
	if !besideCaptures.Load() || !api.threadExchangeStreamCaptureMode.Ok() {
		return captureGlobal
	}
	word := words.Get().(*[2]uint64)
	defer words.Put(word)
	*word = [2]uint64{mode} // the driver writes the old one over it, in 32 bits
	api.threadExchangeStreamCaptureMode.Call4(uintptr(unsafe.Pointer(word)), 0, 0, 0)
	return word[0]
}

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
