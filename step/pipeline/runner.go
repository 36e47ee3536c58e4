package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// ErrClosed: the runner was closed.
var ErrClosed = errs.ErrClosed

// Runner runs the stages of one rank. It owns the state that they read, which stays on the
// device. It is safe for concurrent use; steps follow one another.
type Runner struct {
	l        *layout
	c        parallel.Comm
	rank     int
	memory   *step.Memory   // of what passes have
	recycler *recycler      // of memory, if that is the runner's own
	given    *step.Memory   // of batches
	places   *recycler      // of batches, if that is the runner's own
	stream   device.Stream  // of what ranks do together
	beside   parallel.Comm  // of what is exchanged beside passes
	done     []device.Event // behind each exchange of a step
	ends     []device.Event // behind each pass
	together device.Event   // behind what ends a step

	chunks         []*chunk
	shared, update *program // what other ranks are told; what replaces state. nil: nothing
	next           []int    // state that update replaces
	levels         []int    // when passes end
	exchanges      []exchange
	spreads        []spread
	holds          []bool // which state this rank has
	reads          map[graph.Value]bool

	mu     sync.Mutex
	put    []bool // which state was put, on any rank
	state  map[slot]*step.Tensor
	sums   map[int]*step.Tensor // of gradients
	first  [2]*step.Tensor      // whether sums have nothing yet: they do; they do not
	loss   *step.Tensor
	told   map[graph.Value]*step.Tensor // shared values of all ranks
	steps  int
	took   time.Duration // the last step
	failed error
	closed bool
}

// slot is a place of a state: one that changes with each micro-batch has one in each stage
// that reads it, others have one on the rank, of stage -1.
type slot struct{ state, stage int }

// chunk is one stage of the rank.
type chunk struct {
	*stage
	number                  int
	cast, forward, backward *program // nil: nothing to do
}

// program is a compiled part.
type program struct {
	part
	x      *step.Executable
	donate []bool
}

// Open cuts a step into Chunks stages for each rank of c, and compiles those of this rank.
// All ranks call it, with the same step and options. It fails with [ErrArgument] if the step
// cannot be cut, or its micro-batches cannot be scheduled, and with errs.ErrTooLarge if no
// cut keeps to Budget: on all ranks alike. The executor's device is that of c, which is not
// closed with the runner. State is put with [Runner.Put] before the first step.
func Open(s train.Step, exec step.Executor, c parallel.Comm, o Options) (_ *Runner, err error) {
	if exec == nil || c == nil {
		return nil, bad("no executor, or no ranks")
	}
	if !device.Same(exec.Device(), c.Device()) {
		return nil, bad("the executor is on %s, and the rank's memory on %s", exec.Device().Info().ID, c.Device().Info().ID)
	}
	l, err := lay(&s, c.Size(), o)
	if err == nil {
		err = l.agree(c)
	}
	if err != nil {
		return nil, err
	}
	r := &Runner{
		l: l, c: c, rank: c.Rank(), memory: o.Compile.Memory, holds: make([]bool, len(s.State)), reads: map[graph.Value]bool{},
		put: make([]bool, len(s.State)), state: map[slot]*step.Tensor{}, sums: map[int]*step.Tensor{}, told: map[graph.Value]*step.Tensor{},
	}
	if r.beside, err = parallel.Beside(context.Background(), c); err != nil {
		return nil, fmt.Errorf("pipeline: rank %d: %w", r.rank, err)
	}
	if err := r.open(exec); err != nil {
		if r.beside != c {
			r.beside.Abort(err) // so that Close does not wait for others, which may be in a step
		}
		return nil, fmt.Errorf("pipeline: rank %d: %w", r.rank, errors.Join(err, r.Close()))
	}
	return r, nil
}

// agree fails on all ranks if they do not have the same step, cut at the same places.
func (l *layout) agree(c parallel.Comm) error {
	digest := sha256.New()
	fmt.Fprintln(digest, l.step.Graph, l.step.Loss, l.step.Batch, l.step.State, l.step.Gradients, l.o.Micro, l.o.Chunks, l.schedule)
	for _, p := range l.parts {
		fmt.Fprintln(digest, p.cast.graph, p.forward.graph, p.backward.graph)
	}
	texts, err := parallel.Texts(c, hex.EncodeToString(digest.Sum(nil)))
	for rank, text := range texts {
		if text != texts[0] && err == nil {
			err = bad("rank %d has another step than rank 0, other options, or cuts it elsewhere, as with other Seconds", rank)
		}
	}
	return err
}

func (r *Runner) open(exec step.Executor) (err error) {
	if r.memory == nil {
		r.recycler, r.places = newRecycler(exec.Device()), newRecycler(exec.Device())
		r.recycler.other, r.places.other, r.recycler.idle = r.places, r.recycler, r.idle
		if r.memory, err = step.OpenMemory(exec.Device(), r.recycler); err != nil {
			return err
		}
		r.given, err = step.OpenMemory(exec.Device(), r.places)
	} else {
		r.given = r.memory
	}
	if err != nil {
		return err
	}
	if r.stream, err = r.c.Device().NewStream(); err != nil {
		return err
	}
	device.Label(r.stream, "pipeline")
	if r.exchanges, err = r.l.exchanges(r.rank); err != nil {
		return err
	}
	levels, err := r.l.levels()
	if err != nil {
		return err
	}
	if r.together, err = r.c.Device().NewEvent(device.EventNoTiming); err != nil {
		return err
	}
	r.levels, r.spreads = levels[r.rank], r.l.spreads(r.rank)
	if r.done, err = r.events(len(r.exchanges)); err != nil {
		return err
	}
	if r.ends, err = r.events(len(r.levels)); err != nil {
		return err
	}
	if err := r.compile(exec); err != nil {
		return err
	}
	return r.allocate()
}

// idle waits for all passes and exchanges that are queued, of any step.
func (r *Runner) idle() error {
	for _, e := range r.ends {
		if err := e.Synchronize(); err != nil {
			return err
		}
	}
	return r.stream.Synchronize()
}

func (r *Runner) events(n int) (list []device.Event, err error) {
	for range n {
		e, err := r.c.Device().NewEvent(device.EventNoTiming)
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

// compile makes the programs, which have what lies between in the same memory.
func (r *Runner) compile(exec step.Executor) error {
	o := r.l.o.Compile
	o.Memory, o.Budget, o.Ranks, o.Lend = r.memory, 0, nil, nil
	if o.Block == nil {
		o.Block = step.NewBlock(r.memory)
	}
	compiled := func(p part, donated func(param int) bool) (*program, error) {
		if p.graph == nil {
			return nil, nil
		}
		q := &program{part: p, donate: make([]bool, len(p.graph.Parameters()))}
		for k := range q.donate {
			q.donate[k] = donated(k)
		}
		for _, v := range p.in {
			r.reads[v] = true
		}
		o.Donate = q.donate
		var err error
		q.x, err = step.Compile(p.graph, exec, o)
		return q, err
	}
	var err error
	for s := r.rank; s < len(r.l.parts); s += r.l.ranks {
		c := &chunk{stage: r.l.parts[s], number: s}
		r.chunks = append(r.chunks, c)
		if c.cast, err = compiled(c.stage.cast, func(int) bool { return false }); err != nil {
			return fmt.Errorf("stage %d: weights: %w", s, err)
		}
		if c.forward, err = compiled(c.stage.forward, func(k int) bool {
			i, ok := r.l.state[c.stage.forward.in[k]]
			return ok && slices.Contains(c.changes, i)
		}); err != nil {
			return fmt.Errorf("stage %d: forward: %w", s, err)
		}
		inputs := len(c.stage.backward.in)
		if c.backward, err = compiled(c.stage.backward, func(k int) bool { return k >= inputs && k < inputs+len(c.gradients) }); err != nil {
			return fmt.Errorf("stage %d: backward: %w", s, err)
		}
	}
	u := r.l.update
	p, err := u.graphOf(r.rank, r.l.o.Micro, u.sharedOf(r.rank))
	if err == nil {
		r.shared, err = compiled(p, func(int) bool { return false })
	}
	if err != nil {
		return fmt.Errorf("what updates of other ranks need: %w", err)
	}
	r.next = u.next(r.rank)
	p, err = u.graphOf(r.rank, r.l.o.Micro, u.results(r.next))
	if err == nil {
		r.update, err = compiled(p, func(k int) bool {
			i, ok := r.l.state[p.in[k]]
			return ok && slices.Contains(r.next, i)
		})
	}
	if err != nil {
		return fmt.Errorf("update: %w", err)
	}
	return nil
}

// allocate makes what is there between steps, but for the state.
func (r *Runner) allocate() (err error) {
	for _, c := range r.chunks {
		for _, i := range c.gradients {
			if r.sums[i], err = r.memory.New(sumShape(r.l.step.Gradients[i])); err != nil {
				return err
			}
		}
	}
	for _, v := range r.l.update.shared {
		if r.told[v], err = r.memory.New(v.Shape()); err != nil {
			return err
		}
	}
	for i := range r.first {
		if r.first[i], err = r.memory.Put([]byte{byte(1 - i)}, graph.MakeShape(dtype.Bool)); err != nil {
			return err
		}
	}
	if r.loss, err = r.memory.New(graph.MakeShape(dtype.F64)); err != nil {
		return err
	}
	for i := range r.holds {
		r.holds[i] = slices.Contains(r.l.holders(i), r.rank)
	}
	return nil
}

// Memory is what makes tensors for batches, also while a step runs.
func (r *Runner) Memory() *step.Memory { return r.given }

// Close frees what the runner has. All ranks call it. A second Close does nothing.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.recycler != nil {
		r.recycler.idle = nil // nothing is queued any more
	}
	var all []error
	if r.beside != nil && r.beside != r.c {
		all = append(all, r.beside.Close())
	}
	if r.stream != nil {
		err := r.stream.Close()
		if r.failed == nil {
			all = append(all, err)
		}
	}
	for _, e := range slices.Concat(r.done, r.ends, []device.Event{r.together}) {
		if e != nil {
			all = append(all, e.Close())
		}
	}
	programs := []*program{r.shared, r.update}
	for _, c := range r.chunks {
		programs = append(programs, c.cast, c.forward, c.backward)
	}
	for _, p := range programs {
		if p != nil && p.x != nil {
			all = append(all, p.x.Close())
		}
	}
	for _, t := range r.tensors() {
		if t != nil {
			all = append(all, t.Free())
		}
	}
	if r.recycler != nil && r.memory != nil {
		all = append(all, r.memory.Close(), r.recycler.Close())
		if r.given != nil {
			all = append(all, r.given.Close(), r.places.Close())
		}
	}
	return errors.Join(all...)
}

// tensors are all that are there between steps.
func (r *Runner) tensors() []*step.Tensor {
	list := []*step.Tensor{r.first[0], r.first[1], r.loss}
	for _, t := range r.state {
		list = append(list, t)
	}
	for _, t := range r.sums {
		list = append(list, t)
	}
	for _, t := range r.told {
		list = append(list, t)
	}
	return list
}
