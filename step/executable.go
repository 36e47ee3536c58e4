package step

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/step/plan"
)

// ErrClosed: the executable was closed.
var ErrClosed = errs.ErrClosed

var background = context.Background()

// Executable is a compiled graph with the memory that it needs between its parameters
// and its results. Its methods are safe for concurrent use; runs follow one another.
type Executable struct {
	graph     *Graph // as it was optimised
	exec      Executor
	dev       device.Device
	memory    *Memory
	ownMemory bool

	buffers   []buffer
	units     []unit
	plan      *plan.Plan
	planned   plan.Graph  // what it is a plan of
	inPlace   map[int]int // results that lie in the memory of a parameter
	lent      map[int]int // of results that lie in the block, the lives that they end in
	constants []*Tensor
	arena     device.Ptr
	starts    [][]int      // for each run, the lives that begin with it
	scratch   []device.Ptr // for each run

	streams [3]device.Stream // computation, copies to the host, copies from it
	pool    *pinned.Pool
	host    *pinned.Buffer
	hosted  map[int]int64  // where on the host a buffer's value goes
	copied  []device.Event // for each life that is copied

	mu     sync.Mutex
	closed bool
}

// Graph is the graph as it was optimised. Do not change it.
func (x *Executable) Graph() *Graph { return x.graph }

// Memory is what makes the results.
func (x *Executable) Memory() *Memory { return x.memory }

// Plan is how the step runs within its budget. Operations are those of [Executable.Tasks].
func (x *Executable) Plan() *plan.Plan { return x.plan }

// SVG draws the plan, as a file: see [plan.Plan.SVG].
func (x *Executable) SVG() (string, error) { return x.plan.SVG(x.planned) }

// Tasks are what runs, in order, each at least once.
func (x *Executable) Tasks() []*Task {
	all := make([]*Task, len(x.units))
	for i, u := range x.units {
		all[i] = u.task
	}
	return all
}

// PeakBytes is the device memory in use during a run: parameters, constants, results,
// and the block that everything between is placed in. It is what the plan says, and what
// is allocated.
func (x *Executable) PeakBytes() int64 { return x.plan.Bytes }

// Run runs the step. Inputs are one tensor for each parameter, of its shape, on the
// executor's device; they are only read. donate says which of them are given away: their
// memory is used for results where that was planned ([Options].Donate), and is freed
// otherwise; they must not be used again, also if the run fails. nil: none. A tensor must
// not be donated twice, nor be an input beside that. If inputs are wrong, or the executable
// is closed, none is taken: an [ErrArgument] or [ErrClosed] leaves all as they were.
//
// The results are the caller's, who frees them, but for those that are lent
// ([Options].Lend). Run returns when they are there. An
// error or the end of ctx leaves the executable as it was; ctx is asked as tasks are
// queued, and those that are queued run to their end.
func (x *Executable) Run(ctx context.Context, inputs []*Tensor, donate []bool) (results []*Tensor, err error) {
	return x.run(ctx, inputs, donate, nil)
}

// run is Run, which records a pair of marks around each task unless they are nil.
func (x *Executable) run(ctx context.Context, inputs []*Tensor, donate []bool, marks [][2]device.Event) (results []*Tensor, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil, fmt.Errorf("step: graph %q: %w", x.graph.name, ErrClosed)
	}
	if err := x.checkInputs(inputs, donate); err != nil {
		return nil, fmt.Errorf("step: graph %q: %w", x.graph.name, err)
	}
	r := run{x: x, at: make([]device.Ptr, len(x.buffers)), marks: marks}
	for i, b := range x.buffers {
		r.at[i] = b.fixed
		if b.param >= 0 {
			r.at[i] = inputs[b.param].Ptr()
		}
	}
	results = make([]*Tensor, len(x.graph.outputs))
	defer func() {
		for i, d := range donate {
			if d {
				err = keepFirst(err, inputs[i].Free())
			}
		}
		if err != nil {
			for _, t := range results {
				if t != nil {
					_ = t.Free()
				}
			}
			results = nil
		}
	}()
	for i := range x.buffers {
		b := &x.buffers[i]
		if b.out < 0 {
			continue
		}
		var t *Tensor
		if p, ok := x.inPlace[b.out]; ok && donate != nil && donate[p] {
			// The input's memory becomes the result's.
			ptr, free := inputs[p].take()
			t = &Tensor{memory: x.memory, shape: b.value.Shape(), ptr: ptr, free: free}
		} else if l, ok := x.lent[b.out]; ok {
			t = &Tensor{memory: x.memory, shape: b.value.Shape(), ptr: x.place(x.plan.Lives[l])}
		} else if t, err = x.memory.New(b.value.Shape()); err != nil {
			return results, x.lacks(fmt.Sprintf("result %d", b.out), err)
		}
		results[b.out] = t
		r.at[i] = t.Ptr()
	}
	err = r.all(ctx)
	for _, s := range x.streams {
		err = keepFirst(err, s.Synchronize())
	}
	return results, err
}

// lacks says what memory was for that there was not.
func (x *Executable) lacks(what string, err error) error {
	return fmt.Errorf("step: graph %q, whose plan has %s on the device, %s of it parameters, results and constants: %s: %w",
		x.graph.name, units.Bytes(x.plan.Bytes), units.Bytes(x.plan.Resident), what, err)
}

func (x *Executable) checkInputs(inputs []*Tensor, donate []bool) error {
	params := x.graph.params
	if len(inputs) != len(params) {
		return fmt.Errorf("%w: %d inputs for %d parameters", ErrArgument, len(inputs), len(params))
	}
	if donate != nil && len(donate) != len(params) {
		return fmt.Errorf("%w: donate is for %d of %d parameters", ErrArgument, len(donate), len(params))
	}
	for i, t := range inputs {
		name := params[i].node.Attr.(*Input).Name
		switch {
		case t == nil:
			return fmt.Errorf("%w: parameter %q has no tensor", ErrArgument, name)
		case t.Freed():
			return fmt.Errorf("%w: the tensor for parameter %q was freed or donated before", ErrArgument, name)
		case !t.shape.Equal(params[i].Shape()):
			return fmt.Errorf("%w: parameter %q is %v, its tensor %v", ErrArgument, name, params[i].Shape(), t.shape)
		case t.shape.Bytes() > 0 && t.Ptr()%tensorAlign != 0:
			return fmt.Errorf("%w: the tensor for parameter %q begins at %#x, no multiple of %d bytes", ErrArgument, name, uint64(t.Ptr()), tensorAlign)
		case x.arena != 0 && t.Ptr() >= x.arena && t.Ptr() < x.arena+device.Ptr(x.plan.Bytes-x.plan.Resident):
			return fmt.Errorf("%w: the tensor for parameter %q is a result that was lent", ErrArgument, name)
		case !device.Same(t.memory.dev, x.dev):
			return fmt.Errorf("%w: the tensor for parameter %q is on %s, the step on %s", ErrArgument, name, t.memory.dev.Info().ID, x.dev.Info().ID)
		}
		if donate != nil && donate[i] && (slices.Contains(inputs[:i], t) || slices.Contains(inputs[i+1:], t)) {
			return fmt.Errorf("%w: the tensor for parameter %q is donated and stands for another one, too", ErrArgument, name)
		}
	}
	return nil
}

// run is one run of an executable.
type run struct {
	x     *Executable
	at    []device.Ptr // where the value of each buffer lies that the plan does not place
	mark  device.Event
	marks [][2]device.Event // around each task, or nil
}

func (r *run) all(ctx context.Context) (err error) {
	x := r.x
	if r.mark, err = x.dev.NewEvent(device.EventNoTiming); err != nil {
		return err
	}
	defer func() { err = keepFirst(err, r.mark.Close()) }()
	current := make([]int, len(x.buffers)) // the life in which a value can be read; -1: none
	for i := range current {
		current[i] = -1
	}
	for i, run := range x.plan.Runs {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("step: graph %q: before task %d of %d: %w", x.graph.name, i, len(x.plan.Runs), err)
		}
		if err := r.copies(run, current); err != nil {
			return err
		}
		u := &x.units[run.Op]
		in := make([]device.Ptr, len(u.in))
		for j, b := range u.in {
			in[j] = r.where(current[b], b)
		}
		out := make([]device.Ptr, len(u.out))
		var sent []int
		for j, b := range u.out {
			made := -1
			for _, l := range x.starts[i] {
				if life := x.plan.Lives[l]; life.Value == b && !life.Fetched {
					made = l
				}
			}
			out[j] = r.where(made, b)
			if made < 0 {
				continue
			}
			if x.plan.Lives[made].Sent {
				sent = append(sent, made)
			}
			if c := current[b]; c < 0 || x.plan.Lives[c].To <= x.plan.Lives[made].To {
				current[b] = made
			}
		}
		if err := r.record(i, 0); err != nil {
			return err
		}
		if err := u.kernel.Launch(x.streams[0], in, out, x.scratch[i]); err != nil {
			return fmt.Errorf("step: %v: %w", u.task, err)
		}
		if err := r.record(i, 1); err != nil {
			return err
		}
		for _, l := range sent {
			if err := r.send(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// record marks the beginning or the end of a task, if somebody wants to know.
func (r *run) record(task, end int) error {
	if r.marks == nil {
		return nil
	}
	return r.x.streams[0].Record(r.marks[task][end])
}

// where is the address of a buffer in a life; without one, it is no plan's.
func (r *run) where(life, b int) device.Ptr {
	if life < 0 || r.x.plan.Lives[life].Offset < 0 {
		return r.at[b]
	}
	return r.x.place(r.x.plan.Lives[life])
}

func (x *Executable) place(l plan.Life) device.Ptr { return x.arena + device.Ptr(l.Offset) }

// after makes later work of one stream wait for what another has queued.
func (r *run) after(wait, other int) error {
	if err := r.x.streams[other].Record(r.mark); err != nil {
		return err
	}
	return r.x.streams[wait].Wait(r.mark)
}

// copies begins what is fetched before a run, and makes the run wait for the copies that
// it needs.
func (r *run) copies(run plan.Run, current []int) error {
	x := r.x
	compute, back := x.streams[0], x.streams[2]
	for _, l := range run.Release {
		if err := compute.Wait(x.copied[l]); err != nil {
			return err
		}
	}
	if len(run.Fetch) > 0 {
		if err := r.after(2, 0); err != nil { // what lay there before is read
			return err
		}
		if err := r.after(2, 1); err != nil { // and what comes back was sent
			return err
		}
	}
	for _, l := range run.Fetch {
		life := x.plan.Lives[l]
		if err := back.CopyH2D(x.place(life), r.hostBytes(life.Value)); err != nil {
			return err
		}
		if err := back.Record(x.copied[l]); err != nil {
			return err
		}
		current[life.Value] = l
	}
	for _, l := range run.Wait {
		if err := compute.Wait(x.copied[l]); err != nil {
			return err
		}
	}
	return nil
}

// send copies what a run wrote to the host.
func (r *run) send(l int) error {
	x := r.x
	life := x.plan.Lives[l]
	if err := r.after(1, 0); err != nil {
		return err
	}
	if err := x.streams[1].CopyD2H(r.hostBytes(life.Value), x.place(life)); err != nil {
		return err
	}
	return x.streams[1].Record(x.copied[l])
}

func (r *run) hostBytes(b int) []byte {
	n := r.x.buffers[b].value.Shape().Bytes()
	return r.x.host.Bytes()[r.x.hosted[b]:][:n]
}

// Close waits for a run, and frees what the executable holds. A second Close does
// nothing.
func (x *Executable) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	x.closed = true
	var err error
	for _, e := range x.copied {
		if e != nil {
			err = keepFirst(err, e.Close())
		}
	}
	for _, s := range x.streams {
		if s != nil {
			err = keepFirst(err, s.Close())
		}
	}
	if x.host != nil {
		err = keepFirst(err, x.host.Free())
	}
	if x.pool != nil {
		err = keepFirst(err, x.pool.Close())
	}
	for _, t := range x.constants {
		err = keepFirst(err, t.Free())
	}
	if x.arena != 0 {
		err = keepFirst(err, x.memory.alloc.Free(x.arena))
	}
	if x.ownMemory && x.memory != nil {
		err = keepFirst(err, x.memory.Close())
	}
	return err
}
