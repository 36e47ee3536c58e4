package read

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/linger"
)

// queue holds jobs until workers have taken all of their samples. Every worker
// takes from the oldest, so that one is complete first, and goes on without a
// pause while there are any.
//
// Waking a worker takes about as long as reading a large sample, so few are
// woken: a job wakes one, and a worker that finds work after a pause wakes
// another. Some of the idle ones linger for a moment and need not be woken. The
// last to fall asleep is the first to be woken; the caches of others are colder.
type queue struct {
	mu       sync.Mutex
	waiting  []task       // the samples of each job that nobody took yet
	open     atomic.Int32 // len(waiting), to look at without mu
	sleepers []*sleeper
	lingers  int  // workers that linger
	most     int  // that may
	closed   bool // there will be no more jobs

	hungry   func() bool // nil: workers take no pictures from a device
	offered  []*Job      // that were read, and have pictures that a device is to decode
	helpers  int         // workers that have one of these
	mostHelp int         // that may: the device's goroutine and the program need processors, too
}

// task is some samples of a job, one behind the other.
type task struct {
	job      *Job
	from, to int  // slots
	picture  bool // taken from a device, and not to be read
}

// newQueue makes a queue at which a few workers may linger: they take
// processors from others.
func newQueue(hungry func() bool) *queue {
	processors := runtime.GOMAXPROCS(0)
	few := max(1, processors/8)
	return &queue{most: few, hungry: hungry, mostHelp: max(1, processors-few)}
}

// sleeper is where a worker sleeps. Its channel has room for one value.
type sleeper struct{ woken chan struct{} }

func newSleeper() *sleeper { return &sleeper{make(chan struct{}, 1)} }

// wake wakes the worker, if there is one. It sleeps, and is woken once, so this
// never blocks.
func (s *sleeper) wake() {
	if s != nil {
		s.woken <- struct{}{}
	}
}

// put adds samples that are to be read.
func (q *queue) put(t task) {
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.open.Store(int32(len(q.waiting)))
	s := q.another()
	q.mu.Unlock()
	s.wake()
}

// take returns up to some samples of the oldest job. It waits until there are
// any; ok is false when there will be no more.
func (q *queue) take(some int, own *sleeper) (t task, ok bool) {
	q.mu.Lock()
	paused := false
	for lingered := false; len(q.waiting) == 0; paused = true {
		if t, ok = q.help(); ok {
			var s *sleeper
			if paused {
				s = q.another()
			}
			q.mu.Unlock()
			s.wake()
			return t, true
		}
		switch {
		case q.closed:
			q.mu.Unlock()
			return t, false
		case !lingered && q.lingers < q.most:
			lingered = true
			q.lingers++
			q.mu.Unlock()
			linger.Until(func() bool { return q.open.Load() > 0 })
			q.mu.Lock()
			q.lingers--
		default:
			q.sleepers = append(q.sleepers, own)
			q.mu.Unlock()
			<-own.woken
			q.mu.Lock()
		}
	}
	t = q.cut(some)
	var s *sleeper
	if paused && (len(q.waiting) > 0 || len(q.offered) > 0 && q.hungry()) {
		s = q.another()
	}
	q.mu.Unlock()
	s.wake()
	return t, true
}

// offer says that a job was read, whose pictures a device is to decode.
func (q *queue) offer(j *Job) {
	if q.hungry == nil || j.Files == nil {
		return
	}
	q.mu.Lock()
	q.offered = append(slices.DeleteFunc(q.offered, func(j *Job) bool { return !j.Files.Offered(j) }), j)
	var s *sleeper
	if q.hungry() {
		s = q.another()
	}
	q.mu.Unlock()
	s.wake()
}

// help takes a picture from a device, if the program is short of batches: of the job
// that the device comes to last. The caller holds mu.
func (q *queue) help() (t task, ok bool) {
	if q.helpers == q.mostHelp {
		return t, false
	}
	for last := len(q.offered) - 1; last >= 0 && q.hungry(); last-- {
		j := q.offered[last]
		if slot, ok := j.Files.Take(j); ok {
			q.helpers++
			return task{job: j, from: slot, to: slot + 1, picture: true}, true
		}
		q.offered[last] = nil
		q.offered = q.offered[:last]
	}
	return t, false
}

// helped ends help.
func (q *queue) helped() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.helpers--
}

// cut takes samples of the first job. The caller holds mu.
func (q *queue) cut(some int) task {
	first := &q.waiting[0]
	t := task{job: first.job, from: first.from, to: min(first.from+some, first.to)}
	if first.from = t.to; first.from == first.to {
		n := copy(q.waiting, q.waiting[1:])
		q.waiting[n] = task{} // holds on to no job
		q.waiting = q.waiting[:n]
		q.open.Store(int32(n))
	}
	return t
}

// another returns a worker to wake; nil if none sleeps, or if one that lingers
// comes by itself. The caller holds mu.
func (q *queue) another() (s *sleeper) {
	if last := len(q.sleepers) - 1; last >= 0 && q.lingers == 0 {
		s = q.sleepers[last]
		q.sleepers[last] = nil
		q.sleepers = q.sleepers[:last]
	}
	return s
}

// close ends the workers, once nothing is left to take.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	sleepers := q.sleepers
	q.sleepers = nil
	q.mu.Unlock()
	for _, s := range sleepers {
		s.wake()
	}
}
