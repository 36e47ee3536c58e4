package transfer

import (
	"context"
	"errors"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// stager copies pageable memory through copiers. A copy is a task that is cut
// into chunks; the copiers take chunks from all tasks in turn, so copies that
// run at once share the processors and both directions of the link.
type stager struct {
	engine *Engine

	mu      sync.Mutex
	work    sync.Cond // signalled when tasks has chunks to take
	tasks   []*task   // tasks with chunks that nobody took yet
	turn    int       // index in tasks of the next to take from
	started bool
	closed  bool         // no new copies
	stopped bool         // and none under way: the copiers can end
	pool    *pinned.Pool // of the engine's own; nil when the user gave one
	copiers sync.WaitGroup
	active  sync.WaitGroup // copies under way
	err     error          // first error of a copier that ended
}

// task is one copy. It is reused: a copy allocates nothing once enough tasks
// exist.
type task struct {
	copy  Copy
	chunk int64

	// Guarded by stager.mu.
	next   int64 // offset of the first byte that nobody took
	left   int64 // bytes not finished yet; taken and untaken
	failed error

	done chan struct{} // receives one value when left reaches zero
	tick chan struct{} // holds a value when left has changed and Progress wants to know
}

var tasks = sync.Pool{New: func() any {
	return &task{done: make(chan struct{}, 1), tick: make(chan struct{}, 1)}
}}

// minChunk is the smallest chunk worth a copier's while: copying it takes
// several times as long as queueing it.
const minChunk = 128 << 10

func (s *stager) copy(ctx context.Context, c Copy) error {
	total := int64(len(c.Host))
	if err := s.begin(); err != nil {
		return err
	}
	defer s.active.Done()

	t := tasks.Get().(*task)
	options := s.engine.options
	t.copy, t.next, t.left, t.failed = c, 0, total, nil
	// Enough chunks for every copier, in whole pages and within a slot.
	t.chunk = min(pagemem.RoundUp(max(total/int64(options.Copiers), minChunk)), options.SlotBytes)
	s.add(t, int((total+t.chunk-1)/t.chunk))

	done := false
	defer func() {
		if !done { // Progress panicked: nothing may touch the caller's memory
			s.abandon(t, errClosed)
			<-t.done
		}
		t.copy = Copy{} // let go of the caller's memory
		select {
		case <-t.tick:
		default:
		}
		tasks.Put(t)
	}()
	var stop error
	cancelled := ctx.Done()
	for {
		select {
		case <-t.done:
			done = true
			if stop != nil {
				return stop
			}
			if t.failed == nil {
				c.report(total)
			}
			return t.failed
		case <-t.tick:
			s.mu.Lock()
			copied, failed := total-t.left, t.failed
			s.mu.Unlock()
			if failed == nil && copied < total {
				c.report(copied)
			}
		case <-cancelled:
			cancelled = nil
			stop = ctx.Err()
			s.abandon(t, stop)
		}
	}
}

// begin starts the copiers if need be and keeps them for one copy.
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

// start makes the copiers. The caller holds mu.
func (s *stager) start() error {
	options := s.engine.options
	pool := options.Pool
	if pool == nil {
		var err error
		pool, err = pinned.NewPool(s.engine.dev, pinned.Options{
			Budget:       int64(options.Copiers) * int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
			SegmentBytes: int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
		})
		if err != nil {
			return err
		}
		s.pool = pool
	}
	var made []*copier
	for range options.Copiers {
		c, err := newCopier(s, pool)
		if len(made) > 0 && (errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit)) {
			break // fewer copiers than wished for: slower, but it works
		}
		if err != nil {
			for _, c := range made {
				err = errors.Join(err, c.close())
			}
			if s.pool != nil {
				err = errors.Join(err, s.pool.Close())
				s.pool = nil
			}
			return err
		}
		made = append(made, c)
	}
	for _, c := range made {
		s.copiers.Go(c.run)
	}
	return nil
}

// add offers a task of that many chunks to the copiers.
func (s *stager) add(t *task, chunks int) {
	s.mu.Lock()
	s.tasks = append(s.tasks, t)
	s.mu.Unlock()
	if chunks >= s.engine.options.Copiers {
		s.work.Broadcast()
		return
	}
	for range chunks {
		s.work.Signal()
	}
}

// abandon gives up what nobody took of t yet.
func (s *stager) abandon(t *task, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.tasks {
		if other == t {
			s.remove(i)
			s.finish(t, int64(len(t.copy.Host))-t.next, err)
			return
		}
	}
}

// remove takes tasks[i] off the list. The caller holds mu.
func (s *stager) remove(i int) {
	last := len(s.tasks) - 1
	copy(s.tasks[i:], s.tasks[i+1:])
	s.tasks[last] = nil
	s.tasks = s.tasks[:last]
}

// take returns the next chunk to copy. When there is none it returns nil at
// once, or with block waits for one; nil then means that the copier can end.
func (s *stager) take(block bool) (t *task, offset, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.tasks) == 0 {
		if !block || s.stopped {
			return nil, 0, 0
		}
		s.work.Wait()
	}
	if s.turn >= len(s.tasks) {
		s.turn = 0
	}
	t = s.tasks[s.turn]
	offset = t.next
	n = min(t.chunk, int64(len(t.copy.Host))-offset)
	t.next += n
	if t.next == int64(len(t.copy.Host)) {
		s.remove(s.turn)
	} else {
		s.turn++
	}
	return t, offset, n
}

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
	} else if t.copy.Progress != nil {
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
	s.copiers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	if s.pool != nil {
		err = errors.Join(err, s.pool.Close())
		s.pool = nil
	}
	return err
}

// copier moves chunks through a ring of pinned slots on its own stream, so
// that its copying on the host and the link's transfers overlap.
type copier struct {
	stager *stager
	stream device.Stream
	ring   []slot
	first  int // oldest slot in flight
	flying int // slots in flight
}

// slot is a piece of pinned memory and the chunk that is passing through it.
type slot struct {
	buffer *pinned.Buffer
	event  device.Event
	task   *task
	host   []byte // the chunk in the caller's memory
}

func newCopier(s *stager, pool *pinned.Pool) (*copier, error) {
	c := &copier{stager: s, ring: make([]slot, s.engine.options.Slots)}
	err := func() (err error) {
		if c.stream, err = s.engine.dev.NewStream(); err != nil {
			return err
		}
		for i := range c.ring {
			if c.ring[i].buffer, err = pool.Alloc(s.engine.options.SlotBytes); err != nil {
				return err
			}
			// The wait spins: sleeping until the device's interrupt costs some
			// 50 µs a chunk, which took 5 % off a GiB and half off 4 MiB.
			if c.ring[i].event, err = s.engine.dev.NewEvent(device.EventNoTiming); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *copier) close() error {
	var errs []error
	if c.stream != nil {
		errs = append(errs, c.stream.Close())
	}
	for _, s := range c.ring {
		if s.buffer != nil {
			errs = append(errs, s.buffer.Free())
		}
		if s.event != nil {
			errs = append(errs, s.event.Close())
		}
	}
	return errors.Join(errs...)
}

// run takes chunks until the stager closes.
func (c *copier) run() {
	for {
		t, offset, n := c.stager.take(c.flying == 0)
		switch {
		case t != nil:
			if c.flying == len(c.ring) {
				c.land()
			}
			c.launch(t, offset, n)
		case c.flying > 0:
			c.land()
		default:
			err := c.close()
			c.stager.mu.Lock()
			c.stager.err = errors.Join(c.stager.err, err)
			c.stager.mu.Unlock()
			return
		}
	}
}

// launch starts a chunk through the next free slot.
func (c *copier) launch(t *task, offset, n int64) {
	s := &c.ring[(c.first+c.flying)%len(c.ring)]
	s.task, s.host = t, t.copy.Host[offset:offset+n]
	staged := s.buffer.Bytes()[:n]
	if !t.copy.ToHost {
		copy(staged, s.host)
	}
	err := t.copy.queue(c.stream, staged, offset)
	if err == nil {
		err = c.stream.Record(s.event)
	}
	if err != nil {
		// The slot may still be in use by what was queued.
		err = errors.Join(err, c.stream.Synchronize())
		s.task, s.host = nil, nil
		c.stager.completed(t, n, err)
		return
	}
	c.flying++
}

// land finishes the oldest chunk in flight.
func (c *copier) land() {
	s := &c.ring[c.first]
	c.first = (c.first + 1) % len(c.ring)
	c.flying--
	t, host := s.task, s.host
	s.task, s.host = nil, nil
	err := s.event.Synchronize()
	if err == nil && t.copy.ToHost {
		copy(host, s.buffer.Bytes())
	}
	c.stager.completed(t, int64(len(host)), err)
}
