package mpi

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/internal/hosted"
)

// ErrUnavailable: MPI cannot be used in this process. The text says why.
var ErrUnavailable = errors.New("MPI is not available")

// process is MPI in this process, which can be started once.
var process struct {
	opening sync.Mutex // held by Open

	sync.Mutex
	open int // communicators
	over bool
}

// Open returns a communicator of all ranks that the launcher started, which has its own
// duplicate of MPI_COMM_WORLD. All ranks call it; the first call starts MPI. It fails with
// [ErrUnavailable], and with [device.ErrNotSupported] for a device that runs no Go
// functions.
//
// MPI ends with the Close of the last communicator that is open, those of Split included:
// that waits for all ranks, and Open fails from then on. Keep one open for as long as the
// process may need it. A process that exits without having closed all, or whose last one
// was aborted, has mpirun and srun end the other ranks.
func Open(dev device.Device) (parallel.Comm, error) {
	if _, err := hosted.New(dev, nil); err != nil {
		return nil, err
	}
	if err := Available(); err != nil {
		return nil, err
	}
	process.opening.Lock()
	defer process.opening.Unlock()
	if err := opened(); err != nil { // nothing ends MPI meanwhile
		return nil, err
	}
	defer closed(nil)
	world, err := start()
	if err != nil {
		return nil, err
	}
	part, err := world.Split(0, world.rank)
	if err != nil {
		return nil, err
	}
	return hosted.New(dev, part)
}

// start starts MPI, and returns an engine over MPI_COMM_WORLD, for Open alone.
var start = sync.OnceValues(func() (*engine, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	l, err := startLoop(lib)
	if err != nil {
		return nil, err
	}
	return newEngine(l, lib.handle(commWorld), l.rank, l.size), nil
})

// opened counts a communicator.
func opened() error {
	process.Lock()
	defer process.Unlock()
	if process.over {
		return fmt.Errorf("mpi: %w: MPI ended with the last communicator of this process, and does not start twice", ErrUnavailable)
	}
	process.open++
	return nil
}

// closed is the reverse. The last one ends MPI, which waits for all ranks; nil is one that
// was aborted, and does not.
func closed(e *engine) error {
	process.Lock()
	defer process.Unlock()
	if process.open--; process.open > 0 || e == nil {
		return nil
	}
	process.over = true
	world, err := start()
	if err != nil {
		return err
	}
	// MPI_Finalize would wait, too, but at full speed, and Abort would not end it.
	if err := e.wait(world.barrier()); err != nil {
		return err
	}
	return e.loop.stop()
}
