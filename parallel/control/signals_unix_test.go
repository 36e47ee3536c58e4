//go:build unix

package control

import "syscall"

const sigstop, sigcont = syscall.SIGSTOP, syscall.SIGCONT
