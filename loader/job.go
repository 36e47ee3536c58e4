package loader

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
)

// job is a batch that is being read.
type job struct {
	n             int // of the loader's batches in all
	epoch, number int
	lane          *lane
	indexes       []int
	labels        []int32 // of each sample
	lengths       []int32 // of each sample; nil when all are of one length
	rows          int     // length of axis 0 of the longest
	slab          *slab
	left          atomic.Int64  // samples
	ready         chan struct{} // closed when left is zero

	err     error // why there is no such batch
	refused bool  // by the device, in part: what is still to be read, the CPU decodes

	mu   sync.Mutex
	errs map[int]error // by slot
}

// task is some samples of a job, one behind the other.
type task struct {
	job      *job
	from, to int // slots
}

// newJob works out what batch n is. It has no slab yet.
func (l *Loader) newJob(n int) (j *job, err error) {
	defer recoverAs(&err, "in the sampler or the dataset")
	j = &job{n: n, lane: l.lanes[n%len(l.lanes)], ready: make(chan struct{})}
	j.epoch, j.number = l.order.at(n)
	j.indexes = l.order.batches.AppendAt(nil, j.epoch, j.number)
	if count := len(j.indexes); count > l.order.largest {
		return nil, fmt.Errorf("loader: %w: batch %d of epoch %d has %d samples, but Batch is %d", device.ErrArgument, j.number, j.epoch, count, l.order.largest)
	}
	for _, i := range j.indexes {
		if i < 0 || i >= l.samples {
			return nil, fmt.Errorf("loader: %w: the sampler gives sample %d of %d in batch %d of epoch %d", device.ErrArgument, i, l.samples, j.number, j.epoch)
		}
	}
	j.labels = make([]int32, len(j.indexes))
	j.left.Store(int64(len(j.indexes)))
	return j, l.measure(j)
}

// failedJob stands for a batch that cannot be made.
func failedJob(n, epoch int, err error) *job {
	j := &job{n: n, epoch: epoch, err: err, ready: make(chan struct{})}
	close(j.ready)
	return j
}

// measure works out how long the samples of j are.
func (l *Loader) measure(j *job) error {
	if !l.spec.Ragged {
		j.rows = l.rows
		return nil
	}
	longest := l.spec.Shape[0]
	j.lengths = make([]int32, len(j.indexes))
	for slot, i := range j.indexes {
		n := dataset.Length(l.ds, i)
		if n < 0 || n > longest {
			return fmt.Errorf("loader: %w: sample %d (%s) has length %d, the longest is said to have %d", device.ErrArgument, i, l.ds.Name(i), n, longest)
		}
		j.lengths[slot] = int32(n)
		j.rows = max(j.rows, n)
	}
	if l.options.PadTo > 0 {
		j.rows = l.options.PadTo
	}
	return nil
}

// place is where the sample of a slot goes: its own bytes, and the padding
// behind them.
func (j *job) place(slot, rowBytes int) (sample, padding []byte) {
	stride := j.rows * rowBytes
	all := j.slab.bytes[slot*stride : (slot+1)*stride : (slot+1)*stride]
	if j.lengths == nil {
		return all, nil
	}
	n := int(j.lengths[slot]) * rowBytes
	return all[:n:n], all[n:]
}

// widen makes room for a sample of so many rows in every place, and pads those
// that are there.
func (j *job) widen(rows, rowBytes int, pad padding) {
	before, after := j.rows*rowBytes, rows*rowBytes
	for slot := len(j.indexes) - 1; slot >= 0; slot-- {
		place := j.slab.bytes[slot*after:][:after]
		copy(place, j.slab.bytes[slot*before:][:before])
		pad.fill(place[before:])
	}
	j.rows = rows
}

// fail notes that the sample of a slot could not be read.
func (j *job) fail(slot int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.errs == nil {
		j.errs = map[int]error{}
	}
	j.errs[slot] = err
}

// finish notes that count samples were read, or could not be. The last makes
// the job ready.
func (j *job) finish(count int, unordered bool) {
	if j.left.Add(-int64(count)) > 0 {
		return
	}
	close(j.ready)
	if unordered {
		j.lane.jobs <- j // never blocks: there is room for every slab
	}
}
