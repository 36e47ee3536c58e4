//go:build unix

package main

import (
	"os"
	"syscall"
)

// endings are signals that would end the command without a word; main sees to others.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}
