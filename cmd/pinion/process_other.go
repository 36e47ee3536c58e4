//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// endings are signals that would end the command without a word: here there are none
// that main does not see to. os.Interrupt is one of those, since an empty list would
// be all.
var endings = []os.Signal{os.Interrupt}

// become runs another program in place of this one: with its input and output, until it
// ends, and then with its exit code. An interrupt at the keyboard reaches both, and is
// for the other to act on.
func become(path string, args []string) error {
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signal.Ignore(os.Interrupt)
	err := cmd.Run()
	if exit := new(exec.ExitError); err == nil || errors.As(err, &exit) {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return err
}
