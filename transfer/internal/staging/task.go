package staging

import (
	"slices"
	"sync"
)

// task is one move. It is reused: a copy allocates nothing once enough tasks
// exist.
type task struct {
	payload  Payload
	memory   memory // the payload of a plain copy
	total    int64
	phase    int64 // chunks end where phase plus offset is a multiple of cutAlign
	copiers  int64
	least    int64 // bytes of a chunk, of which the first and the last may have fewer
	most     int64
	progress func(done, total int64)

	// Guarded by stager.mu.
	next   int64 // offset of the first byte that nobody took
	left   int64 // bytes not finished yet; taken and untaken
	failed error
	lone   bool // the caller has no ring: helpers do it all

	done chan struct{} // receives one value when left reaches zero
	tick chan struct{} // holds a value when left has changed and progress wants to know
}

var tasks = sync.Pool{New: func() any {
	return &task{done: make(chan struct{}, 1), tick: make(chan struct{}, 1)}
}}

// cut takes the next chunk. The first and the last ones are small: no copier
// waits long for its first or for the last of the others, and in between the
// cost of a chunk hardly counts. Chunks begin on whole pages of what is moved.
func (t *task) cut() (offset, n int64) {
	offset = t.next
	n = max(min(offset, t.total-offset)/t.copiers, t.least)
	n = min(n, t.most)
	if over := (t.phase + offset + n) % cutAlign; over < n {
		n -= over // else a slot is smaller than a page
	}
	n = min(n, t.total-offset)
	t.next += n
	return offset, n
}

// cutAlign is what chunks are aligned to, in the space that phase begins in:
// the most that direct reads of files ask for.
const cutAlign = 4096

// add offers t to the copiers and wakes as many of them as make the given
// number, as far as there are chunks for them. Helpers that linger find the task
// by themselves; waking others instead would cost more than it gains. It returns
// the ring that the caller is to use, if one is free. A caller with progress gets none: progress
// may take its time, or copy, and a ring held meanwhile could be the last one.
// While lone tasks wait, the last one is for helpers: callers that copy in a
// row are quicker than a helper wakes, and would keep it from them for ever.
func (s *Stager) add(t *task, copiers int) *ring {
	s.mu.Lock()
	var r *ring
	if t.progress == nil && (s.lone == 0 || len(s.rings) > 1) {
		r = s.freeRing(t.total)
	}
	if t.lone = r == nil; t.lone {
		s.lone++
	}
	s.tasks = append(s.tasks, t)
	s.waiting.Store(int32(len(s.tasks)))
	s.mu.Unlock()
	wake := int(min(int64(copiers), (t.total+t.least-1)/t.least)) - int(s.awake.Load())
	if r != nil {
		wake--
	}
	if wake >= s.options.Copiers-1 {
		s.work.Broadcast()
		return r
	}
	for range wake {
		s.work.Signal()
	}
	return r
}

// abandon gives up what nobody took of t yet.
func (s *Stager) abandon(t *task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.tasks, t); i >= 0 {
		s.remove(i)
		s.finish(t, t.total-t.next, err)
	}
}

// remove takes tasks[i] off the list. The caller holds mu.
func (s *Stager) remove(i int) {
	if s.tasks[i].lone {
		s.lone--
	}
	last := len(s.tasks) - 1
	copy(s.tasks[i:], s.tasks[i+1:])
	s.tasks[last] = nil
	s.tasks = s.tasks[:last]
	s.waiting.Store(int32(last))
}

// take returns the next chunk of all tasks in turn, or nil.
func (s *Stager) take() (t *task, offset, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		return nil, 0, 0
	}
	if s.turn >= len(s.tasks) {
		s.turn = 0
	}
	t = s.tasks[s.turn]
	offset, n = t.cut()
	if t.next == t.total {
		s.remove(s.turn)
	} else {
		s.turn++
	}
	return t, offset, n
}

// takeFrom returns the next chunk of t; n is zero when there is none.
func (s *Stager) takeFrom(t *task) (offset, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.tasks, t)
	if i < 0 {
		return 0, 0
	}
	offset, n = t.cut()
	if t.next == t.total {
		s.remove(i)
	}
	return offset, n
}

// completed counts n bytes of t as finished.
func (s *Stager) completed(t *task, n int64, err error) {
	if err != nil {
		s.abandon(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(t, n, err)
}

// finish is completed with mu held.
func (s *Stager) finish(t *task, n int64, err error) {
	if t.failed == nil {
		t.failed = err
	}
	t.left -= n
	if t.left == 0 {
		t.done <- struct{}{}
	} else if t.progress != nil {
		select {
		case t.tick <- struct{}{}:
		default: // it will see this chunk with the one before
		}
	}
}
