package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// stayOn keeps the calling goroutine on one core, and no other thread: those of
// the runtime have work of their own.
func stayOn(core int) error {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("core %d: %w", core, err)
	}
	return nil
}
