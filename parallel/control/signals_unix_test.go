//go:build unix

package control

import "syscall"

const sigstop, sigcont, sigterm = syscall.SIGSTOP, syscall.SIGCONT, syscall.SIGTERM
