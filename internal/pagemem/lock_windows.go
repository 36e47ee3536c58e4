package pagemem

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/windows"
)

// A Windows process may lock as much as its minimum working set, less a few
// pages; the default is 200 KiB. The set may be raised without a privilege,
// so locking does that when it has to. Unlocking leaves it: the system trims
// pages that are not locked all the same.
const workingSetSlack = 1 << 20

var workingSet sync.Mutex // held over read, change, write of the quotas

func lockPages(b []byte) error {
	err := windows.VirtualLock(address(b), uintptr(len(b)))
	if errors.Is(err, windows.ERROR_WORKING_SET_QUOTA) || errors.Is(err, windows.ERROR_NO_SYSTEM_RESOURCES) {
		if err = growWorkingSet(uintptr(len(b)) + workingSetSlack); err == nil {
			err = windows.VirtualLock(address(b), uintptr(len(b)))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLockLimit, err)
		}
	}
	return err
}

func unlockPages(b []byte) error {
	return windows.VirtualUnlock(address(b), uintptr(len(b)))
}

func growWorkingSet(by uintptr) error {
	workingSet.Lock()
	defer workingSet.Unlock()
	var low, high uintptr
	var flags uint32
	process := windows.CurrentProcess()
	windows.GetProcessWorkingSetSizeEx(process, &low, &high, &flags)
	return windows.SetProcessWorkingSetSizeEx(process, low+by, max(high, low+by+workingSetSlack), flags)
}

func lockLimit() (bytes int64, unlimited bool) {
	var low, high uintptr
	var flags uint32
	windows.GetProcessWorkingSetSizeEx(windows.CurrentProcess(), &low, &high, &flags)
	return int64(low), false
}
