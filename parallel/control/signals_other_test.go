//go:build !unix

package control

import "syscall"

const sigstop, sigcont, sigterm = syscall.Signal(0), syscall.Signal(0), syscall.Signal(0)
