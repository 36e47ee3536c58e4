//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// endings are signals that would end the command without a word; main sees to others.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGQUIT}

// become goes on as another program, which has this process, its signals and its exit
// code. It returns only if that cannot be.
func become(path string, args []string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, os.Environ()))
}
