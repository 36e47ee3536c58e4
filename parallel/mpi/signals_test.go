//go:build linux

package mpi

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/parallel"
)

func init() { programs["signals"] = withComm(runSignals) }

// MPI leaves Go its signals: a nil pointer is a panic, SIGINT can be caught, and
// goroutines are preempted.
func TestSignals(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 2, "signals"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runSignals(c parallel.Comm) error {
	if err := panicOf(nil); err == nil {
		return errors.New("reading through a nil pointer is no panic")
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGINT)
	defer signal.Stop(caught)
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-caught:
	case <-time.After(10 * time.Second):
		return errors.New("SIGINT was not caught")
	}
	// Of one processor, a loop without calls has to be taken off by SIGURG.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	done := make(chan bool)
	go func() {
		time.Sleep(time.Millisecond)
		close(done)
	}()
	for n := 0; ; n++ {
		if n%1_000_000_000 == 0 {
			select {
			case <-done:
				return nil
			default:
			}
			if n > 0 {
				return errors.New("a loop was not preempted")
			}
		}
	}
}

func panicOf(p *int) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	_ = *p
	return nil
}
