package numa

import (
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

var system = sync.OnceValue(func() []Node {
	// The main thread's CPUs stand for the process's: the calling thread may
	// be confined further.
	allowed := unix.NewCPUSet(maxID)
	if unix.SchedGetaffinityDynamic(os.Getpid(), allowed) != nil {
		allowed.Fill()
	}
	nodes, err := read(os.DirFS("/sys/devices/system/node"), allowed.IsSet)
	if err != nil {
		return nil // a kernel without NUMA, or a sandbox
	}
	return nodes
})

// prefer sets the memory policy of the mapping.
func prefer(b []byte, node int) error {
	mask := make([]uint, node/bits.UintSize+1)
	mask[node/bits.UintSize] = 1 << (node % bits.UintSize)
	// The kernel reads one bit less than it is told.
	_, _, e := unix.Syscall6(unix.SYS_MBIND,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MPOL_PREFERRED,
		uintptr(unsafe.Pointer(&mask[0])), uintptr(len(mask)*bits.UintSize+1), 0)
	switch e {
	case 0:
		return nil
	case unix.EINVAL:
		return fmt.Errorf("no memory there that this process may use: %w", e)
	}
	return e
}

// confine locks the calling goroutine to its thread and the thread to cpus.
// Go starts no new thread from a locked one, so none inherits that.
func confine(cpus []int) (leave func(), err error) {
	runtime.LockOSThread()
	old, mask := unix.NewCPUSet(maxID), unix.NewCPUSet(maxID)
	for _, cpu := range cpus {
		mask.Set(cpu)
	}
	if err = unix.SchedGetaffinityDynamic(0, old); err == nil {
		if slices.Equal(old, mask) {
			runtime.UnlockOSThread()
			return func() {}, nil
		}
		err = unix.SchedSetaffinityDynamic(0, mask)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	return func() {
		if unix.SchedSetaffinityDynamic(0, old) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
