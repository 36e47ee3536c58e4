package loader

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
)

// errNoReader: a worker could not start. It is no sample's fault.
var errNoReader = errors.New("no reader")

// read is a worker: it reads samples into their places until there are none.
func (l *Loader) read() {
	reader, openErr := l.openReader()
	if openErr == nil {
		defer func() {
			var err error // a reader only reads: nothing can be lost
			defer recoverAs(&err, "in Close of a reader")
			err = reader.Close()
		}()
	}
	var timing dataset.Timing
	for {
		idle := time.Now()
		t, ok := receive(l.ctx, l.work)
		l.counters.workerWait.Add(int64(time.Since(idle)))
		if !ok {
			return
		}
		err := openErr
		if err == nil {
			err = l.readSample(reader, t, &timing)
		}
		t.job.errs[t.slot] = err
		l.counters.read(&timing)
		if t.job.left.Add(-1) == 0 {
			close(t.job.ready)
		}
	}
}

func (l *Loader) openReader() (reader dataset.Reader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("loader: %w: %w", errNoReader, err)
		}
	}()
	defer recoverAs(&err, "in NewReader")
	return l.ds.NewReader()
}

// readSample reads one sample and its label.
func (l *Loader) readSample(reader dataset.Reader, t task, timing *dataset.Timing) (err error) {
	index := t.job.indexes[t.slot]
	defer func() {
		if err != nil {
			err = fmt.Errorf("loader: sample %d: %w", index, err)
		}
	}()
	name := "its name"
	defer func() {
		if errors.Is(err, errPanic) {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	defer recoverAs(&err, "in the dataset")
	name = l.ds.Name(index)
	t.job.labels[t.slot] = l.ds.Label(index)
	n := l.spec.Bytes()
	return reader.Read(l.ctx, dataset.Visit{Index: index, Timing: timing}, t.job.slab.bytes[t.slot*n:(t.slot+1)*n:(t.slot+1)*n])
}

// errPanic: code of the dataset or of a callback panicked.
var errPanic = errors.New("panic")

// recoverAs makes an error of a panic. Use it with defer.
func recoverAs(err *error, where string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w %s: %v\n%s", errPanic, where, p, debug.Stack())
	}
}
