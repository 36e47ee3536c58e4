package step

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/step/plan"
)

// ErrClosed: the executable was closed.
var ErrClosed = errs.ErrClosed

// ErrNotBegun: a context ended while a run waited for another one.
var ErrNotBegun = errors.New("another run is not done yet")

var background = context.Background()

// Executable is a compiled graph with the memory that it needs between its parameters
// and its results. Its methods are safe for concurrent use; runs follow one another.
type Executable struct {
	graph     *graph.Graph // as it was optimised
	exec      Executor
	dev       device.Device
	memory    *Memory
	ownMemory bool

	buffers   []buffer
	units     []unit
	again     []other // what may run in place of units within a budget
	plan      *plan.Plan
	planned   plan.Graph  // what it is a plan of
	inPlace   map[int]int // results that lie in the memory of a parameter
	lent      map[int]int // of results that lie in the block, the lives that they end in
	constants []*Tensor
	arena     device.Ptr
	block     *Block   // whose memory that is; nil: the executable's own
	launches  []launch // the plan's runs

	streams [4]device.Stream // see compute; that of ranks is nil where they do nothing together
	aside   []int            // those beside compute that work is queued on
	pool    *pinned.Pool
	host    *pinned.Buffer // where values are sent, nil if none is
	hosted  map[int]int64  // where in it a buffer's value goes
	sent    map[int]int    // of a buffer that is sent, the life
	copied  []device.Event // for each life that is copied
	mark    device.Event   // what makes one stream wait for another; nil where there is one

	turn    chan struct{} // full while somebody runs or closes the executable
	closed  bool
	replays replays
}

// Streams of an executable.
const (
	compute = iota
	toHost
	fromHost
	ranks
)

// enter waits for the executable to be the caller's, until leave.
func (x *Executable) enter(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case x.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("step: graph %q: %w: %w", x.graph.Name(), ErrNotBegun, ctx.Err())
	}
}

func (x *Executable) leave() { <-x.turn }

// Graph is the graph as it was optimised. Do not change it.
func (x *Executable) Graph() *graph.Graph { return x.graph }

// Memory is what makes the results.
func (x *Executable) Memory() *Memory { return x.memory }

// Plan is how the step runs within its budget. [Executable.Task] says what runs.
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

// Task is what a run of the plan runs: one of [Executable.Tasks], or one that makes values
// again in other company.
func (x *Executable) Task(r plan.Run) *Task { return x.unit(r.Op).task }

// PeakBytes is the device memory in use during a run: parameters, constants, results,
// and the block that everything between is placed in. It is what the plan says, and what
// is allocated.
func (x *Executable) PeakBytes() int64 { return x.plan.Bytes }

// Run runs the step. Inputs are one tensor for each parameter, of its shape, on the
// executor's device; they are only read. donate says which of them are given away: their
// memory is used for results where that was planned ([Options].Donate), and is freed
// otherwise; they must not be used again, also if the run fails. nil: none. A tensor must
// not be donated twice, nor be an input beside that. If inputs are wrong, or the executable
// is closed, or ctx ends while another run is waited for, none is taken: an [ErrArgument],
// an [ErrClosed] or an [ErrNotBegun] leaves all as they were.
//
// The results are the caller's, who frees them, but for those that are lent
// ([Options].Lend). Run returns when they are there. An
// error or the end of ctx leaves the executable as it was; ctx is asked while another run
// is waited for and as tasks are queued, and those that are queued run to their end. Of
// ranks ([Options].Ranks), it is not asked behind the first task: those of one step would
// meet those of another in the next run.
//
// A run with the addresses of an earlier one, of inputs and of results, is recorded, and
// from then on launched as one, if the device can ([Options].Capture).
func (x *Executable) Run(ctx context.Context, inputs []*Tensor, donate []bool) (results []*Tensor, err error) {
	return x.run(ctx, inputs, donate, func(at []device.Ptr) error {
		return keepFirst(x.perform(ctx, at), x.synchronize())
	})
}

// Start queues what [Executable.Run] does behind the events in after, records done behind it,
// and returns at once. Runs of one executable follow one another. Where others use the same
// [Block], give each Start the event of the one before, and call [Executable.Wait] before
// anything else is run or compiled with it.
//
// Work that waits for done may read the results. What the run reads and writes has to be
// there until then, also inputs that are donated, which are freed at once: with an allocator
// that gives freed memory to others than work that waits for done, donate nothing that is
// not replaced in place, and free nothing before Wait.
//
// What goes wrong on the device is an error of Wait. If Start fails, what it had queued is
// over.
func (x *Executable) Start(ctx context.Context, inputs []*Tensor, donate []bool, done device.Event, after ...device.Event) ([]*Tensor, error) {
	return x.run(ctx, inputs, donate, func(at []device.Ptr) error {
		var err error
		for _, e := range after {
			err = keepFirst(err, x.streams[compute].Wait(e))
		}
		if err == nil {
			err = x.perform(ctx, at)
		}
		if err == nil {
			err = x.streams[compute].Record(done)
		}
		if err != nil {
			return keepFirst(err, x.synchronize())
		}
		return nil
	})
}

// Wait waits for what [Executable.Start] queued, and says what went wrong in it.
func (x *Executable) Wait() error {
	_ = x.enter(background)
	defer x.leave()
	if x.closed {
		return fmt.Errorf("step: graph %q: %w", x.graph.Name(), ErrClosed)
	}
	return x.synchronize()
}

// run is Run. perform is given where buffers lie that the plan has no place for, and
// queues the step, once or more often. If it fails, what it queued is done.
func (x *Executable) run(ctx context.Context, inputs []*Tensor, donate []bool, perform func(at []device.Ptr) error) (results []*Tensor, err error) {
	if err := x.enter(ctx); err != nil {
		return nil, err
	}
	defer x.leave()
	if x.closed {
		return nil, fmt.Errorf("step: graph %q: %w", x.graph.Name(), ErrClosed)
	}
	if err := x.checkInputs(inputs, donate); err != nil {
		return nil, fmt.Errorf("step: graph %q: %w", x.graph.Name(), err)
	}
	if x.block != nil {
		if err := x.block.enter(ctx); err != nil {
			return nil, fmt.Errorf("step: graph %q: %w", x.graph.Name(), err)
		}
		defer x.block.leave()
	}
	at := make([]device.Ptr, len(x.buffers))
	for i, b := range x.buffers {
		at[i] = b.fixed
		if b.param >= 0 {
			at[i] = inputs[b.param].Ptr()
		}
	}
	results = make([]*Tensor, len(x.graph.Outputs()))
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
	if x.block != nil {
		if err = x.settle(); err != nil {
			return results, err
		}
	}
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
		at[i] = t.Ptr()
	}
	return results, perform(at)
}

// synchronize waits for everything that is queued.
func (x *Executable) synchronize() (err error) {
	for _, s := range x.streams {
		if s != nil {
			err = keepFirst(err, s.Synchronize())
		}
	}
	return err
}

// lacks says what memory was for that there was not.
func (x *Executable) lacks(what string, err error) error {
	return fmt.Errorf("step: graph %q, whose plan has %s on the device, %s of it parameters, results and constants: %s: %w",
		x.graph.Name(), units.Bytes(x.plan.Bytes), units.Bytes(x.plan.Resident), what, err)
}

func (x *Executable) checkInputs(inputs []*Tensor, donate []bool) error {
	params := x.graph.Parameters()
	if len(inputs) != len(params) {
		return fmt.Errorf("%w: %s for %s", ErrArgument, units.Count(len(inputs), "input"), units.Count(len(params), "parameter"))
	}
	if donate != nil && len(donate) != len(params) {
		return fmt.Errorf("%w: donate is for %d of %d parameters", ErrArgument, len(donate), len(params))
	}
	for i, t := range inputs {
		if err := x.checkTensor(i, t); err != nil {
			return err
		}
		if donate != nil && donate[i] && (slices.Contains(inputs[:i], t) || slices.Contains(inputs[i+1:], t)) {
			return fmt.Errorf("%w: the tensor for parameter %q is donated and stands for another one, too", ErrArgument, params[i].Node().Attr.(*graph.Input).Name)
		}
	}
	return nil
}

// checkTensor reports whether a tensor can be a parameter.
func (x *Executable) checkTensor(i int, t *Tensor) error {
	params := x.graph.Parameters()
	name := params[i].Node().Attr.(*graph.Input).Name
	switch {
	case t == nil:
		return fmt.Errorf("%w: parameter %q has no tensor", ErrArgument, name)
	case t.Freed():
		return fmt.Errorf("%w: the tensor for parameter %q was freed or donated before", ErrArgument, name)
	case !t.shape.Equal(params[i].Shape()):
		return fmt.Errorf("%w: parameter %q is %v, its tensor %v", ErrArgument, name, params[i].Shape(), t.shape)
	case t.shape.Bytes() > 0 && t.Ptr()%tensorAlign != 0:
		return fmt.Errorf("%w: the tensor for parameter %q begins at %#x, no multiple of %d bytes", ErrArgument, name, uint64(t.Ptr()), tensorAlign)
	case len(x.lent) > 0 && t.Ptr() >= x.arena && t.Ptr() < x.arena+device.Ptr(x.plan.Bytes-x.plan.Resident):
		return fmt.Errorf("%w: the tensor for parameter %q is a result that was lent", ErrArgument, name)
	case !device.Same(t.memory.dev, x.dev):
		return fmt.Errorf("%w: the tensor for parameter %q is on %s, the step on %s", ErrArgument, name, t.memory.dev.Info().ID, x.dev.Info().ID)
	}
	return nil
}

// Close waits for runs, and frees what the executable holds. A second Close does nothing.
func (x *Executable) Close() error {
	_ = x.enter(background)
	defer x.leave()
	if x.closed {
		return nil
	}
	x.closed = true
	_ = x.synchronize() // what went wrong was told, or nobody asked
	err := x.replays.close()
	if x.mark != nil {
		err = keepFirst(err, x.mark.Close())
	}
	for _, e := range x.copied {
		if e != nil {
			err = keepFirst(err, e.Close())
		}
	}
	for _, n := range x.launches {
		if n.done != nil {
			err = keepFirst(err, n.done.Close())
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
	if x.block != nil {
		err = keepFirst(err, x.block.quit())
	} else if x.arena != 0 {
		err = keepFirst(err, x.memory.alloc.Free(x.arena))
	}
	if x.ownMemory && x.memory != nil {
		err = keepFirst(err, x.memory.Close())
	}
	return err
}
