// Package callstack notes where memory was asked for while somebody looks for leaks.
// Packages that hand memory out ask [Wanted], which costs one atomic load, and note
// the stack only then.
package callstack

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

var wanted atomic.Int32

// Wanted reports whether somebody wants stacks.
func Wanted() bool { return wanted.Load() > 0 }

// Want has stacks noted until stop is called. More calls of stop do nothing.
func Want() (stop func()) {
	wanted.Add(1)
	return sync.OnceFunc(func() { wanted.Add(-1) })
}

// most is the most frames of a stack.
const most = 32

// Here returns the stack of whoever called the function that calls Here, and of skip
// callers fewer, as program counters for [runtime.CallersFrames].
func Here(skip int) []uintptr {
	var pcs [most]uintptr
	return slices.Clone(pcs[:runtime.Callers(3+skip, pcs[:])])
}

// IfWanted is Here, or nil if nobody wants stacks.
func IfWanted(skip int) []uintptr {
	if !Wanted() {
		return nil
	}
	return Here(skip + 1)
}
