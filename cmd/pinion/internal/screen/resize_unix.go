//go:build unix

package screen

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize sends to c when the size of the terminal changes, until forget is
// called, which waits for the end of that.
func notifyResize(c chan<- struct{}) (forget func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		defer close(done)
		for range signals {
			select {
			case c <- struct{}{}:
			default: // somebody is about to look anyway
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
