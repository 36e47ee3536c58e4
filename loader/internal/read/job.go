package read

import (
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// Job is a batch that is being read.
type Job struct {
	slab.Contents
	Files *devdecode.Files // of the samples, where a device decodes; else nil

	N             int   // of the loader's batches in all
	Epoch, Number int   // of the batch within its epoch
	Err           error // why there is no such batch

	Ended   bool  // the dataset ended before the last of its samples
	LeftOut int   // samples that could not be read, so far
	Why     error // the first of them

	done  chan<- *Job   // gets the job when it is read; nil: nobody waits there
	ready chan struct{} // closed when it is read
	left  atomic.Int64  // samples to read

	mu   sync.Mutex
	errs map[int]error // by slot
}

// NewJob makes a job of a batch. done gets it when all of it is read, and must
// have room for it; nil: see [Job.Ready].
func NewJob(n, epoch, number int, c slab.Contents, done chan<- *Job) *Job {
	j := &Job{N: n, Epoch: epoch, Number: number, Contents: c, done: done, ready: make(chan struct{})}
	j.left.Store(int64(len(c.Indexes)))
	return j
}

// FailedJob stands for a batch that cannot be made.
func FailedJob(n, epoch int, err error) *Job {
	j := &Job{N: n, Epoch: epoch, Err: err, ready: make(chan struct{})}
	close(j.ready)
	return j
}

// Ready is closed when every sample was read, or could not be.
func (j *Job) Ready() <-chan struct{} { return j.ready }

// Move puts the sample of one slot into another, with all that goes with it.
func (j *Job) Move(to, from int) {
	if to == from {
		return
	}
	j.Contents.Move(to, from)
	if j.Files != nil {
		j.Files.Swap(to, from)
	}
}

// Fail notes that the sample of a slot could not be read; nil clears that.
func (j *Job) Fail(slot int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.errs == nil {
		j.errs = map[int]error{}
	}
	j.errs[slot] = err
}

// Failed reports whether any sample could not be read. Like [Job.ErrorOf] and
// [Job.Settled] it is for jobs that are read.
func (j *Job) Failed() bool { return len(j.errs) > 0 }

// ErrorOf is why the sample of a slot could not be read, or nil.
func (j *Job) ErrorOf(slot int) error { return j.errs[slot] }

// Settled forgets the errors.
func (j *Job) Settled() { clear(j.errs) }

// Finish notes that count samples were read, or could not be. The last makes
// the job ready, and reports that.
func (j *Job) Finish(count int) (last bool) {
	if j.left.Add(-int64(count)) > 0 {
		return false
	}
	if j.Files != nil {
		j.Files.Offer(j, len(j.Indexes))
	}
	close(j.ready)
	if j.done != nil {
		j.done <- j // never blocks: there is room for every job
	}
	return true
}
