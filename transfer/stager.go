package transfer

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// stager moves pageable memory, and whatever else has to pass through pinned
// memory, by copiers. A move is a task that is cut into chunks. The goroutine
// that asks for it copies too; helpers join it when there is enough to do for
// them. Helpers take chunks from all tasks in turn, so moves that run at once
// share the processors and both directions of the link.
type stager struct {
	engine   *Engine
	options  Options // of the engine; Copiers and Pool may be others
	pageable bool    // slots that cannot be pinned will do

	mu      sync.Mutex
	work    sync.Cond    // signalled when there are chunks to take, and rings to take them with
	tasks   []*task      // tasks with chunks that nobody took yet
	waiting atomic.Int32 // len(tasks), to look at without mu
	awake   atomic.Int32 // helpers that linger: they come by themselves
	turn    int          // index in tasks of the next to take from
	lone    int          // how many of tasks are
	made    int          // rings
	rings   []*ring      // those that nobody uses
	started bool
	closed  bool         // no new tasks
	stopped bool         // and none under way: the helpers can end
	pool    *pinned.Pool // of the engine's own; nil when the user gave one
	helpers sync.WaitGroup
	active  sync.WaitGroup // tasks under way
}

// task is one move. It is reused: a copy allocates nothing once enough tasks
// exist.
type task struct {
	cargo    cargo
	memory   memoryCargo // the cargo, where that is a plain copy
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

// copy moves c as p says.
func (s *stager) copy(ctx context.Context, c Copy, p plan) error {
	t := tasks.Get().(*task)
	t.memory = memoryCargo{c, p.pastCaches}
	t.cargo, t.total, t.phase, t.progress = &t.memory, int64(len(c.Host)), 0, c.Progress
	return s.move(ctx, t, p)
}

// move carries out t and puts it away.
func (s *stager) move(ctx context.Context, t *task, p plan) error {
	defer func() {
		t.cargo, t.memory, t.progress = nil, memoryCargo{}, nil // let go of the caller's memory
		tasks.Put(t)
	}()
	if err := s.begin(); err != nil {
		return err
	}
	defer s.active.Done()
	t.copiers, t.most = int64(p.copiers), min(p.chunk, s.options.SlotBytes)
	t.least = min(p.least, t.most)
	t.next, t.left, t.failed = 0, t.total, nil
	r := s.add(t, p.copiers)

	done := false
	defer func() {
		if !done { // progress panicked: nothing may touch the caller's memory
			s.abandon(t, errClosed)
			<-t.done
		}
		select {
		case <-t.tick:
		default:
		}
	}()
	w := watch{stager: s, task: t, ctx: ctx, cancelled: ctx.Done()}
	if r != nil { // and so no progress to report
		for offset, n := s.takeFrom(t); n > 0; offset, n = s.takeFrom(t) {
			r.launch(s, t, offset, n)
			w.poll()
		}
		s.release(r)
	}
	for {
		select {
		case <-t.done:
			done = true
			if w.stop != nil {
				return w.stop
			}
			if t.failed == nil && t.progress != nil {
				t.progress(t.total, t.total)
			}
			return t.failed
		case <-t.tick:
			w.report()
		case <-w.cancelled:
			w.cancel()
		}
	}
}

// watch is what the goroutine that asked for a task looks after.
type watch struct {
	stager    *stager
	task      *task
	ctx       context.Context
	cancelled <-chan struct{} // nil once it was seen
	stop      error           // the context's error
}

// poll looks at the context without waiting.
func (w *watch) poll() {
	select {
	case <-w.cancelled:
		w.cancel()
	default:
	}
}

func (w *watch) report() {
	w.stager.mu.Lock()
	copied, failed := w.task.total-w.task.left, w.task.failed
	w.stager.mu.Unlock()
	if failed == nil && copied < w.task.total {
		w.task.progress(copied, w.task.total)
	}
}

func (w *watch) cancel() {
	w.cancelled = nil
	w.stop = w.ctx.Err()
	w.stager.abandon(w.task, w.stop)
}

// begin starts the helpers if need be and keeps them for one task.
func (s *stager) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if !s.started {
		if err := s.start(); err != nil {
			return err
		}
		s.started = true
	}
	s.active.Add(1)
	return nil
}

// start makes the rings and the helpers. The caller holds mu.
func (s *stager) start() error {
	options := s.options
	pool := options.Pool
	if pool == nil {
		var err error
		pool, err = pinned.NewPool(s.engine.dev, pinned.Options{
			Budget:       int64(options.Copiers) * int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
			SegmentBytes: int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
			Flags:        device.PinMapped, AllowPageable: s.pageable,
		})
		if err != nil {
			return err
		}
		s.pool = pool
	}
	for range options.Copiers {
		r, err := newRing(s.engine.dev, pool, options)
		if len(s.rings) > 0 && (errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit)) {
			break // fewer copiers than wished for: slower, but it works
		}
		if err != nil {
			return errors.Join(err, s.giveBack())
		}
		s.rings = append(s.rings, r)
	}
	s.made = len(s.rings)
	// As many as rings, though callers copy too: a task that found no ring free
	// depends on helpers.
	for range s.rings {
		s.helpers.Go(s.help)
	}
	return nil
}

// giveBack closes all rings, none of which is in use, and the pool. The
// caller holds mu.
func (s *stager) giveBack() error {
	var errs []error
	for _, r := range s.rings {
		errs = append(errs, r.close())
	}
	s.rings = nil
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
		s.pool = nil
	}
	return errors.Join(errs...)
}

// add offers t to the copiers and wakes as many of them as make the given
// number, as far as there are chunks for them. Those who linger look for tasks
// before they sleep; to wake others instead costs more than it gains. It returns the ring that the
// caller is to use, if one is free. A caller with progress gets none: progress
// may take its time, or copy, and a ring held meanwhile could be the last one.
// While lone tasks wait, the last one is for helpers: callers that copy in a
// row are quicker than a helper wakes, and would keep it from them for ever.
func (s *stager) add(t *task, copiers int) *ring {
	s.mu.Lock()
	var r *ring
	if t.progress == nil && (s.lone == 0 || len(s.rings) > 1) {
		r = s.freeRing()
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

// freeRing takes a ring that nobody uses, or nil. The caller holds mu.
func (s *stager) freeRing() *ring {
	n := len(s.rings)
	if n == 0 {
		return nil
	}
	r := s.rings[n-1]
	s.rings[n-1] = nil
	s.rings = s.rings[:n-1]
	return r
}

// release lands what is in flight in r, if it is not nil, and puts it back.
func (s *stager) release(r *ring) {
	if r == nil {
		return
	}
	for r.flying > 0 {
		r.land(s)
	}
	s.mu.Lock()
	s.rings = append(s.rings, r)
	waiting := len(s.tasks) > 0 // perhaps for this ring
	s.mu.Unlock()
	if waiting {
		s.work.Signal()
	}
}

// help takes chunks until the stager closes.
func (s *stager) help() {
	// Near the device's root port the link is faster. Where that is refused, or
	// there is one node, any processor does.
	leave, _ := numa.Enter(s.engine.dev.Info().NUMANode)
	defer leave()
	for {
		r := s.join()
		if r == nil {
			return
		}
		for {
			t, offset, n := s.take()
			if t != nil {
				r.launch(s, t, offset, n)
			} else if r.flying > 0 {
				r.land(s)
			} else {
				break
			}
		}
		s.release(r)
		s.linger()
	}
}

// linger keeps a helper awake for a little while after its work: waking it
// from sleep takes as long as copying a MiB, and copies come in rows.
func (s *stager) linger() {
	s.awake.Add(1)
	defer s.awake.Add(-1)
	for start := time.Now(); s.waiting.Load() == 0 && time.Since(start) < lingerFor; {
		runtime.Gosched()
	}
}

// lingerFor is as long as a processor takes to wake from its sleep. (With it,
// 4 MiB to the host took 190 µs instead of 300 on an H200 machine.)
const lingerFor = 50 * time.Microsecond

// join waits for chunks and a ring to take them with; nil means that the
// helper can end.
func (s *stager) join() *ring {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.room() {
			if r := s.freeRing(); r != nil {
				return r
			}
		}
		if s.stopped {
			return nil
		}
		s.work.Wait()
	}
}

// room reports whether the tasks want more copiers than there are: one more is
// not always faster. The caller holds mu.
func (s *stager) room() bool {
	busy := s.made - len(s.rings)
	for _, t := range s.tasks {
		if busy -= int(t.copiers); busy < 0 {
			return true
		}
	}
	return false
}

// abandon gives up what nobody took of t yet.
func (s *stager) abandon(t *task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.tasks, t); i >= 0 {
		s.remove(i)
		s.finish(t, t.total-t.next, err)
	}
}

// remove takes tasks[i] off the list. The caller holds mu.
func (s *stager) remove(i int) {
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
func (s *stager) take() (t *task, offset, n int64) {
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
func (s *stager) takeFrom(t *task) (offset, n int64) {
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

// completed counts n bytes of t as finished.
func (s *stager) completed(t *task, n int64, err error) {
	if err != nil {
		s.abandon(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(t, n, err)
}

// finish is completed with mu held.
func (s *stager) finish(t *task, n int64, err error) {
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

func (s *stager) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.active.Wait()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.work.Broadcast()
	s.helpers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.giveBack()
}
