package staging

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// Stager moves pageable memory, and whatever else has to pass through pinned
// memory. A move is a task that is cut into chunks. The goroutine that asks for
// it copies too; helpers join it when there is enough to do for them. Helpers take chunks from all tasks in turn, so moves that run at once
// share the processors and both directions of the link.
type Stager struct {
	options Options

	mu      sync.Mutex
	work    sync.Cond    // signalled when there are chunks to take, and rings to take them with
	tasks   []*task      // tasks with chunks that nobody took yet
	waiting atomic.Int32 // len(tasks), to look at without mu
	awake   atomic.Int32 // helpers that linger: they come by themselves
	sharing atomic.Int32 // shares with pieces to take
	shares  [4]share
	turn    int     // index in tasks of the next to take from
	lone    int     // how many of tasks are
	made    int     // rings
	rings   []*ring // those that nobody uses
	started bool
	closed  bool         // no new tasks
	stopped bool         // and none under way: the helpers can end
	pool    *pinned.Pool // of the engine's own; nil when the user gave one
	helpers sync.WaitGroup
	active  sync.WaitGroup // tasks under way
}

// ErrClosed: the stager was closed.
var ErrClosed = fmt.Errorf("transfer: %w", device.ErrClosed)

// Options are what a stager works with. All fields but Pool and Pageable are
// needed.
type Options struct {
	Device    device.Device
	Pool      *pinned.Pool // gives the slots; nil: a pool of the stager's own
	Copiers   int          // rings
	Slots     int          // of a ring
	SlotBytes int64
	Pageable  bool // slots that cannot be pinned will do
}

// DefaultSlots is the number of slots of a ring: enough that copying into one
// and the transfers of the others overlap.
const DefaultSlots = 4

// New makes a stager. It takes nothing before the first copy. Close it when it
// is no longer used.
func New(o Options) *Stager {
	s := &Stager{options: o}
	s.work.L = &s.mu
	return s
}

// Copy moves c as p says and returns when it is done. It fails with
// [device.ErrPinLimit] where no slot can be pinned. progress may be nil.
func (s *Stager) Copy(ctx context.Context, c Copy, progress func(done, total int64), p Plan) error {
	if progress == nil && s.shareable(int64(len(c.Host)), p) {
		if done, err := s.copyShared(ctx, c, p); done {
			return err
		}
	}
	t := tasks.Get().(*task)
	t.memory = memory{c, p.PastCaches}
	t.payload, t.total, t.phase, t.progress = &t.memory, int64(len(c.Host)), 0, progress
	return s.move(ctx, t, p)
}

// copyShared does Copy by a share. It reports false when that cannot be had.
func (s *Stager) copyShared(ctx context.Context, c Copy, p Plan) (done bool, err error) {
	if err := s.begin(ctx); err != nil {
		return true, err
	}
	defer s.active.Done()
	sh := s.openShare(c, p)
	if sh == nil {
		return false, nil
	}
	defer s.closeShare(sh)
	return true, sh.run(s.options.Device)
}

// Move moves a payload of total bytes as p says and returns when it is done.
// Chunks end where phase plus their offset is a multiple of 4096. progress may
// be nil.
func (s *Stager) Move(ctx context.Context, payload Payload, total, phase int64, progress func(done, total int64), p Plan) error {
	t := tasks.Get().(*task)
	t.payload, t.total, t.phase, t.progress = payload, total, phase%cutAlign, progress
	return s.move(ctx, t, p)
}

// move carries out t and puts it away.
func (s *Stager) move(ctx context.Context, t *task, p Plan) error {
	defer func() {
		t.payload, t.memory, t.progress = nil, memory{}, nil // let go of the caller's memory
		tasks.Put(t)
	}()
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.active.Done()
	t.copiers, t.most = int64(p.Copiers), min(p.Most, s.options.SlotBytes)
	t.least = min(p.Least, t.most)
	t.next, t.left, t.failed = 0, t.total, nil
	r := s.add(t, p.Copiers)

	done := false
	defer func() {
		if !done { // progress panicked: nothing may touch the caller's memory
			s.abandon(t, ErrClosed)
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

// Prepare makes what copies need now, instead of at the first one. It fails as
// [Stager.Copy] does.
func (s *Stager) Prepare(ctx context.Context) error {
	err := s.begin(ctx)
	if err == nil {
		s.active.Done()
	}
	return err
}

// begin starts the helpers if need be and keeps them for one task.
func (s *Stager) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if !s.started {
		if err := s.start(ctx); err != nil {
			return err
		}
		s.started = true
	}
	s.active.Add(1)
	return nil
}

// start makes the rings and the helpers. The caller holds mu. For one ring it
// waits for pending memory of the pool, until ctx ends; the others take what is
// free.
func (s *Stager) start(ctx context.Context) error {
	options := s.options
	pool := options.Pool
	if pool == nil {
		var err error
		pool, err = pinned.NewPool(s.options.Device, pinned.Options{
			Budget:       int64(options.Copiers) * int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
			SegmentBytes: int64(options.Slots) * pagemem.RoundUp(options.SlotBytes),
			Flags:        device.PinMapped, AllowPageable: s.options.Pageable,
		})
		if err != nil {
			return err
		}
		s.pool = pool
	}
	ended, end := context.WithCancel(ctx)
	end()
	for range options.Copiers {
		if len(s.rings) > 0 {
			ctx = ended
		}
		r, err := newRing(ctx, s.options.Device, pool, options)
		if errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit) {
			// What the part of a ring leaves in the pool is of no use.
			_, trimErr := pool.Trim()
			err = errors.Join(err, trimErr)
			if len(s.rings) > 0 && trimErr == nil {
				break // fewer copiers than wished for: slower, but it works
			}
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
func (s *Stager) giveBack() error {
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

// Waiting is the number of tasks with chunks that nobody took yet.
func (s *Stager) Waiting() int { return int(s.waiting.Load()) }

// Close waits for copies under way, stops the helpers and gives the slots back.
// Copies fail with [ErrClosed] afterwards; a second Close does nothing.
func (s *Stager) Close() error {
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
