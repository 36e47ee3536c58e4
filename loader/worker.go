package loader

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
)

// read is a worker: it reads samples into their places until there are none.
func (l *Loader) read() {
	reader, openErr := l.ds.NewReader()
	if openErr != nil {
		openErr = fmt.Errorf("loader: no reader: %w", openErr)
	} else {
		defer reader.Close() // a reader only reads: nothing can be lost
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

// readSample reads one sample. A panic of the dataset's becomes an error.
func (l *Loader) readSample(reader dataset.Reader, t task, timing *dataset.Timing) (err error) {
	index := t.job.indexes[t.slot]
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("loader: sample %d (%s): panic: %v\n%s", index, l.ds.Name(index), p, debug.Stack())
		}
	}()
	n := l.spec.Bytes()
	if err := reader.Read(index, t.job.slab.bytes[t.slot*n:(t.slot+1)*n:(t.slot+1)*n], timing); err != nil {
		return fmt.Errorf("loader: sample %d: %w", index, err)
	}
	return nil
}
