package local

import (
	"cmp"
	"net"

	"golang.org/x/sys/unix"
)

// peer tells who is at the other end of a connection: who connected, or who listens.
// The system tells no PID with it: 0.
func peer(c *net.UnixConn) (user, pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Xucred
	controlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED) })
	if err := cmp.Or(controlErr, err); err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), 0, nil
}
