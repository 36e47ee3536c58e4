//go:build unix

package dl

import (
	"errors"
	"runtime"

	"github.com/ebitengine/purego"
)

// The loader keeps the reason of a failure for the thread that failed, until
// it is asked with a second call. The goroutine stays on its thread for both.

func open(file string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := purego.Dlopen(file, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil && err.Error() == "" {
		err = errors.New(file + " cannot be loaded; the loader gives no reason")
	}
	return handle, err
}

func symbol(handle uintptr, name string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return purego.Dlsym(handle, name)
}
