package loader

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// job is a batch that is being read.
type job struct {
	n             int // of the loader's batches in all
	epoch, number int
	lane          *lane
	indexes       []int
	labels        []int32 // of each sample
	block                 // the samples
	targets       []block // that go with them
	places        int     // in each block: samples, before any was left out
	slab          *slab
	left          atomic.Int64  // samples
	ready         chan struct{} // closed when left is zero

	err     error // why there is no such batch
	leftOut int   // samples that could not be read, so far
	why     error // the first of them
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
	j.places = len(j.indexes)
	j.left.Store(int64(len(j.indexes)))
	return j, l.measure(j)
}

// failedJob stands for a batch that cannot be made.
func failedJob(n, epoch int, err error) *job {
	j := &job{n: n, epoch: epoch, err: err, ready: make(chan struct{})}
	close(j.ready)
	return j
}

// measure works out how long the samples of j and their targets are, and where
// they go.
func (l *Loader) measure(j *job) error {
	j.block = block{source: &l.source}
	if err := j.block.measure(j.indexes); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if l.options.PadTo > 0 {
		j.rows = l.options.PadTo
	}
	if len(l.targets) == 0 {
		return nil
	}
	j.targets = make([]block, len(l.targets))
	for k := range j.targets {
		j.targets[k].source = &l.targets[k]
		if err := j.targets[k].measure(j.indexes); err != nil {
			return fmt.Errorf("loader: target %d: %w", k, err)
		}
	}
	targetsAt(j.places*j.stride(), j.places, j.targets)
	return nil
}

// sample is where the sample of a slot goes.
func (j *job) sample(slot int) []byte {
	place, _ := j.place(j.slab.bytes, slot)
	return place
}

// end is where the samples and their targets end.
func (j *job) end() int {
	last := &j.block
	if n := len(j.targets); n > 0 {
		last = &j.targets[n-1]
	}
	return last.at + len(j.indexes)*last.stride()
}

// widen makes room for so many rows in every place of a block. The blocks
// behind it make way.
func (j *job) widen(b *block, rows int) {
	was := make([]int, len(j.targets))
	for k := range was {
		was[k] = j.targets[k].at
	}
	before := b.rows
	b.rows = rows
	targetsAt(j.places*j.stride(), j.places, j.targets)
	for k := len(was) - 1; k >= 0; k-- {
		if t := &j.targets[k]; t.at != was[k] {
			copy(j.slab.bytes[t.at:], j.slab.bytes[was[k]:][:j.places*t.stride()])
		}
	}
	b.rows = before
	b.widen(j.slab.bytes, len(j.indexes), rows)
}

// move puts the sample of one slot into another, with all that goes with it.
func (j *job) move(to, from int) {
	if to == from {
		return
	}
	j.block.move(j.slab.bytes, to, from)
	for k := range j.targets {
		j.targets[k].move(j.slab.bytes, to, from)
	}
	j.indexes[to], j.labels[to] = j.indexes[from], j.labels[from]
	if files := j.slab.files; files != nil {
		files[to], files[from] = files[from], files[to]
	}
}

// cut leaves the first n samples.
func (j *job) cut(n int) {
	j.indexes, j.labels = j.indexes[:n], j.labels[:n]
	j.block.cut(n)
	for k := range j.targets {
		j.targets[k].cut(n)
	}
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
