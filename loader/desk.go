package loader

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// desk is where jobs lie until workers have taken all of their samples. Every
// worker takes from the oldest, so that one is complete first, and goes on
// without a pause while there are any.
//
// Waking a worker takes about as long as reading a large sample, so few are
// woken: a job wakes one, and whoever finds work after a pause wakes another.
// Some who have nothing to do linger for a moment and need not be woken. The
// last to fall asleep is the first to be woken; the caches of others are colder.
type desk struct {
	mu       sync.Mutex
	piles    []pile
	open     atomic.Int32 // len(piles), to look at without mu
	sleepers []*nap
	lingers  int  // workers that linger
	most     int  // that may
	closed   bool // there will be no more jobs
}

// newDesk makes a desk at which a few workers may linger: they take processors
// from others.
func newDesk() *desk { return &desk{most: max(1, runtime.GOMAXPROCS(0)/8)} }

// lingerFor is as long as a processor takes to wake from its sleep.
const lingerFor = 50 * time.Microsecond

// pile is a job with samples that nobody took yet.
type pile struct {
	job      *job
	next, to int // slots
}

// nap is where a worker sleeps. It has room for one value.
type nap struct{ over chan struct{} }

func newNap() *nap { return &nap{make(chan struct{}, 1)} }

// end wakes the worker, if there is one. It sleeps, and is woken once, so this
// never blocks.
func (n *nap) end() {
	if n != nil {
		n.over <- struct{}{}
	}
}

// put lays down a job that has samples.
func (d *desk) put(j *job) {
	d.mu.Lock()
	d.piles = append(d.piles, pile{j, 0, len(j.indexes)})
	d.open.Store(int32(len(d.piles)))
	n := d.another()
	d.mu.Unlock()
	n.end()
}

// take returns up to some samples of the oldest job. It waits until there are
// any; ok is false when there will be none any more.
func (d *desk) take(some int, own *nap) (t task, ok bool) {
	d.mu.Lock()
	paused := false
	for lingered := false; len(d.piles) == 0; paused = true {
		switch {
		case d.closed:
			d.mu.Unlock()
			return t, false
		case !lingered && d.lingers < d.most:
			lingered = true
			d.lingers++
			d.mu.Unlock()
			for start := time.Now(); d.open.Load() == 0 && time.Since(start) < lingerFor; {
				runtime.Gosched()
			}
			d.mu.Lock()
			d.lingers--
		default:
			d.sleepers = append(d.sleepers, own)
			d.mu.Unlock()
			<-own.over
			d.mu.Lock()
		}
	}
	t = d.cut(some)
	var n *nap
	if paused && len(d.piles) > 0 {
		n = d.another()
	}
	d.mu.Unlock()
	n.end()
	return t, true
}

// cut takes samples of the first pile. The caller holds mu.
func (d *desk) cut(some int) task {
	p := &d.piles[0]
	t := task{p.job, p.next, min(p.next+some, p.to)}
	if p.next = t.to; p.next == p.to {
		n := copy(d.piles, d.piles[1:])
		d.piles[n] = pile{} // jobs end
		d.piles = d.piles[:n]
		d.open.Store(int32(n))
	}
	return t
}

// another returns a sleeper to be woken, nil where there is none, or where
// somebody comes by himself. The caller holds mu.
func (d *desk) another() (n *nap) {
	if last := len(d.sleepers) - 1; last >= 0 && d.lingers == 0 {
		n = d.sleepers[last]
		d.sleepers[last] = nil
		d.sleepers = d.sleepers[:last]
	}
	return n
}

// close ends the workers, once nothing is left to take.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	sleepers := d.sleepers
	d.sleepers = nil
	d.mu.Unlock()
	for _, n := range sleepers {
		n.end()
	}
}
