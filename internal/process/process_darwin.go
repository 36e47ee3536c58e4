package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func self() (ID, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	if err != nil {
		return ID{}, fmt.Errorf("process: kern.proc.pid: %w", err)
	}
	return ID{PID: uint32(os.Getpid()), Start: start(info)}, nil
}

func namespace() uint64 { return 0 }

func alive(id ID) bool {
	if unix.Kill(int(id.PID), 0) == unix.ESRCH {
		return false
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", int(id.PID))
	if err != nil {
		return true
	}
	const zombie = 5 // SZOMB of sys/proc.h
	return start(info) == id.Start && info.Proc.P_stat != zombie
}

// start is in microseconds since 1970.
func start(info *unix.KinfoProc) uint64 {
	t := info.Proc.P_starttime
	return uint64(t.Sec)*1e6 + uint64(t.Usec)
}
