//go:build unix

package screen

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

const canStop = true

// stop stops the processes of this job, this one too, and returns when they go on.
func stop() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGCONT)
	defer signal.Stop(again)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return
	}
	// The signal may take a moment. Where nobody could let the process go on, the
	// system does not stop it, and no other signal comes.
	const moment = 500 * time.Millisecond
	select {
	case <-again:
	case <-time.After(moment):
	}
}
