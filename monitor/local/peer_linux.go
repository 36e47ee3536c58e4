package local

import (
	"cmp"
	"net"

	"golang.org/x/sys/unix"
)

// peer tells who is at the other end of a connection: who connected, or who listens.
// A PID of 0 is one of another PID namespace.
func peer(c *net.UnixConn) (user, pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var cred *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := cmp.Or(controlErr, err); err != nil {
		return 0, 0, err
	}
	return int(cred.Uid), int(cred.Pid), nil
}
