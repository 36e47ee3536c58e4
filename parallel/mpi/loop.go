package mpi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/parallel"
)

// loop is the goroutine, on a thread of its own, that makes all calls of MPI in this
// process. None of them waits for other ranks, but those that start and end MPI, and
// MPI_Comm_split (see split.go).
type loop struct {
	lib   *library
	calls chan func()
	ended chan struct{}
	turns turns

	// Of the goroutine alone:
	pending    []*request
	alone      bool // there is one processor, which others need
	finalizes  bool // it has started MPI, so it ends it
	stopped    bool
	rank, size int // in MPI_COMM_WORLD
}

// request is an operation that MPI works on.
type request struct {
	call   string
	handle uintptr // MPI_Request
	bytes  int     // how many it moves, about
	exact  bool    // a receive of just as many
	pinned runtime.Pinner
	done   chan struct{}
	err    error // once it is done

	aborted chan struct{} // closed when nobody waits for it any more
}

var errEnded = errors.New("mpi: MPI was finalized")

// startLoop starts MPI, unless somebody did.
func startLoop(lib *library) (*loop, error) {
	l := &loop{lib: lib, calls: make(chan func()), ended: make(chan struct{}), alone: runtime.GOMAXPROCS(0) == 1}
	go l.run()
	if err := l.call(l.initialize); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return l, nil
}

func (l *loop) initialize() error {
	lib := l.lib
	var flag, level int32
	lib.initialized.Call(uintptr(unsafe.Pointer(&flag)))
	if flag != 0 {
		lib.queryThread.Call(uintptr(unsafe.Pointer(&level)))
		if level < threadMultiple {
			return fmt.Errorf("mpi: %w: other code of this process has initialized MPI without MPI_THREAD_MULTIPLE", ErrUnavailable)
		}
	} else {
		if err := lib.check("MPI_Init_thread", lib.initThread.Call(0, 0, threadFunneled, uintptr(unsafe.Pointer(&level)))); err != nil {
			return err
		}
		l.finalizes = true
	}
	world := lib.handle(commWorld)
	var rank, size int32
	if err := errors.Join(
		lib.check("MPI_Comm_set_errhandler", lib.setHandler.Call(world, lib.handle(errorsReturn))),
		lib.check("MPI_Comm_rank", lib.commRank.Call(world, uintptr(unsafe.Pointer(&rank)))),
		lib.check("MPI_Comm_size", lib.commSize.Call(world, uintptr(unsafe.Pointer(&size)))),
	); err != nil {
		return err
	}
	l.rank, l.size = int(rank), int(size)
	// The library of another MPI does not find the launcher, and each rank is alone.
	if from, ok := launcher(os.Getenv); ok && from.size > 1 && l.size == 1 {
		return fmt.Errorf("mpi: %w: %s started %d ranks, but %s sees one: it is not the library of that launcher",
			ErrUnavailable, from.name, from.size, lib.version)
	}
	return nil
}

// call calls fn on the loop's thread.
func (l *loop) call(fn func() error) error {
	done := make(chan error, 1)
	if !l.send(func() { done <- fn() }) {
		return errEnded
	}
	select {
	case err := <-done:
		return err
	case <-l.ended:
		return errEnded
	}
}

func (l *loop) send(fn func()) bool {
	select {
	case l.calls <- fn:
		return true
	case <-l.ended:
		return false
	}
}

// start starts an operation of an engine: begin calls the function for the request, which
// may use memory until it is done.
func (e *engine) start(call string, memory []byte, begin func(r *request) uintptr) *request {
	l := e.loop
	r := &request{call: call, bytes: len(memory), exact: call == "MPI_Irecv", done: make(chan struct{}), aborted: e.aborted}
	r.pinned.Pin(unsafe.SliceData(memory))
	if !l.send(func() {
		if err := l.lib.check(call, begin(r)); err != nil {
			r.finish(err)
			return
		}
		l.pending = append(l.pending, r)
	}) {
		r.finish(errEnded)
	}
	return r
}

func (r *request) finish(err error) {
	r.pinned.Unpin()
	r.err = err
	close(r.done)
}

// wait waits for the end of a request, or of the loop.
func (l *loop) wait(r *request) error {
	select {
	case <-r.done:
		return r.err
	case <-l.ended:
		return errEnded
	}
}

// stop ends the loop, and MPI if the loop started it. What is pending never ends.
func (l *loop) stop() error {
	var err error
	l.send(func() {
		l.stopped = true
		if l.finalizes {
			err = l.lib.check("MPI_Finalize", l.lib.finalize.Call())
		}
	})
	<-l.ended
	return err
}

const (
	spin      = 100 * time.Microsecond
	busyPause = time.Millisecond
	// With nothing to wait for, others may still need this rank to push on what it sent.
	idlePause = 10 * time.Millisecond
)

func (l *loop) run() {
	runtime.LockOSThread() // the thread ends with the goroutine
	defer close(l.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for last := time.Now(); !l.stopped; {
		// It looks without pause for as long as an operation may take, then pauses
		// for an eighth of the time that it has waited.
		var fn func()
		waited := time.Since(last)
		patience, waiting := l.patience()
		if waited < patience || waiting {
			select {
			case fn = <-l.calls:
			default:
				if waited < patience {
					l.lib.yield.Call4(0, 0, 0, 0) // ranks may be more than processors
				} else { // Go's timers are of milliseconds
					l.lib.usleep.Call4(uintptr(min(waited/8, busyPause).Microseconds()), 0, 0, 0)
				}
			}
		} else {
			timer.Reset(min(waited/8, idlePause))
			select {
			case fn = <-l.calls:
			case <-timer.C:
			}
		}
		if fn != nil {
			fn()
		}
		if fn != nil || l.poll() {
			last = time.Now()
		}
	}
	for _, r := range l.pending {
		r.pinned.Unpin()
	}
}

// patience is how long the loop looks without pause: a nanosecond for each byte that is
// under way, and some more. It also reports whether anybody waits.
func (l *loop) patience() (patience time.Duration, waiting bool) {
	patience = spin
	for _, r := range l.pending {
		select {
		case <-r.aborted:
		default:
			patience += time.Duration(r.bytes)
			waiting = true
		}
	}
	if l.alone {
		patience = 0
	}
	return patience, waiting
}

// poll looks which requests are done, and reports whether any is.
func (l *loop) poll() bool {
	before := len(l.pending)
	l.pending = slices.DeleteFunc(l.pending, func(r *request) bool {
		var done int32
		var status [statusBytes / 8]uint64
		code := l.lib.test.Call(uintptr(unsafe.Pointer(&r.handle)), uintptr(unsafe.Pointer(&done)), uintptr(unsafe.Pointer(&status)))
		err := l.lib.check(r.call, code)
		if err == nil && done == 0 {
			return false
		}
		if err == nil && r.exact {
			var n int32
			err = l.lib.check("MPI_Get_count", l.lib.getCount.Call(uintptr(unsafe.Pointer(&status)), l.lib.handle(typeByte), uintptr(unsafe.Pointer(&n))))
			if err == nil && int(n) != r.bytes {
				err = fmt.Errorf("mpi: %w: %d bytes came where %d were to come", parallel.ErrMismatch, n, r.bytes)
			}
		}
		r.finish(err)
		return true
	})
	if before == 0 && l.size > 0 {
		var flag int32
		var status [statusBytes / 8]uint64
		l.lib.iprobe.Call(0, 0, l.lib.handle(commWorld), uintptr(unsafe.Pointer(&flag)), uintptr(unsafe.Pointer(&status)))
	}
	return len(l.pending) < before
}
