//go:build linux || darwin

package shmem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long Lock waits. Locks are held for microseconds, unless a
// process is stopped in the middle.
var patience = 10 * time.Second

// locks is held by the goroutine of this process that holds the lock of a
// file, or closes one: record locks do not tell goroutines apart.
var locks sync.Mutex

// Lock keeps every other goroutine and process out that locks f, whichever
// descriptor of the file it uses, until unlock is called. It locks the first
// byte (fcntl's F_SETLK), and fails when another process holds that for ten
// seconds.
func Lock(f *os.File) (unlock func(), err error) {
	locks.Lock()
	for wait, waited := time.Millisecond, time.Duration(0); ; waited += wait {
		if err = record(f, unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err == nil {
			return func() {
				record(f, unix.F_SETLK, &unix.Flock_t{Type: unix.F_UNLCK})
				locks.Unlock()
			}, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) || waited >= patience {
			break
		}
		locks.Unlock() // others have other files to lock
		time.Sleep(wait)
		locks.Lock()
	}
	holder := unix.Flock_t{Type: unix.F_WRLCK}
	if record(f, unix.F_GETLK, &holder) == nil && holder.Type != unix.F_UNLCK {
		err = fmt.Errorf("%w: process %d has held it for %v", err, holder.Pid, patience)
	}
	locks.Unlock()
	return nil, fmt.Errorf("shmem: lock %s: %w", f.Name(), err)
}

func record(f *os.File, command int, lock *unix.Flock_t) error {
	lock.Whence, lock.Start, lock.Len = io.SeekStart, 0, 1
	return withDescriptor(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), command, lock) })
}

// Close closes f without taking the lock away from another goroutine of this
// process.
func Close(f *os.File) error {
	locks.Lock()
	defer locks.Unlock()
	return f.Close()
}
