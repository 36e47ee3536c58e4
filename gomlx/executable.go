package gomlx

import (
	"context"
	stderrors "errors"
	"fmt"
	"runtime"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/autocast"
	"github.com/pkg/errors"
)

// Compile implements [compute.Builder].
func (b *builder) Compile() (compute.Executable, error) {
	if !b.main.returned {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: %q has not returned anything", Name, ErrArgument, b.Name()))
	}
	g := b.main.graph
	donate := make([]bool, len(g.Parameters()))
	for i := range donate {
		donate[i] = true // where a caller does not, the result has memory of its own
	}
	mixed := g
	if t := b.backend.opts.Autocast; t != 0 {
		var err error
		if mixed, err = autocast.Graph(g, t); err != nil {
			return nil, errors.WithStack(err)
		}
	}
	x, err := b.backend.compile(mixed, step.Options{Budget: b.backend.opts.Budget, Donate: donate, Memory: b.backend.memory, Block: b.backend.block, Ranks: b.backend.opts.Ranks})
	if stderrors.Is(err, step.ErrNotSupported) {
		err = fmt.Errorf("%w: %w", compute.ErrNotImplemented, err)
	}
	if err != nil {
		return nil, errors.WithStack(err)
	}
	e := &executable{backend: b.backend, graph: g, step: x}
	if x != nil {
		if !b.backend.adopt(x) {
			return nil, errors.WithStack(stderrors.Join(fmt.Errorf("%s: %w", Name, ErrFinalized), x.Close()))
		}
		runtime.AddCleanup(e, b.backend.drop, x)
	}
	return e, nil
}

// adopt has Finalize close a step, unless it has been called.
func (b *Backend) adopt(x *step.Executable) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.steps != nil {
		b.steps[x] = struct{}{}
	}
	return b.steps != nil
}

// drop closes a step that nobody has any more. Until that is done, Finalize waits for it.
func (b *Backend) drop(x *step.Executable) {
	x.Close()
	b.mu.Lock()
	delete(b.steps, x)
	b.mu.Unlock()
}

// compile makes a step of a graph, or none where the backend plans only.
func (b *Backend) compile(g *graph.Graph, o step.Options) (*step.Executable, error) {
	if b.onPlan == nil {
		x, err := b.opts.Compile(g, b.executor, o)
		if o.Budget == 0 && stderrors.Is(err, device.ErrOutOfMemory) {
			return b.squeeze(g, o, err)
		}
		return x, err
	}
	p, err := step.Plan(g, b.executor, o)
	if err == nil {
		b.onPlan(p)
	}
	return nil, err
}

// squeeze compiles a graph for which full says that there is no room, within what the
// device has left: seven eighths of it, or less, since other memory may lie in the way.
func (b *Backend) squeeze(g *graph.Graph, o step.Options, full error) (*step.Executable, error) {
	left, err := b.device.Memory()
	if err != nil {
		return nil, full
	}
	room := left.FreeBytes + b.pool.Stats().Reserved.Current
	for eighths := int64(7); eighths >= 4; eighths-- {
		o.Budget = room / 8 * eighths
		x, err := b.opts.Compile(g, b.executor, o)
		if err == nil {
			return x, nil
		}
		if !stderrors.Is(err, device.ErrOutOfMemory) {
			return nil, fmt.Errorf("%w; within what the device has left: %w", full, err)
		}
	}
	return nil, full
}

// executable is a compiled graph. Those that GoMLX does not finalize are closed when they
// are garbage.
type executable struct {
	backend *Backend
	graph   *graph.Graph
	step    *step.Executable // nil where the backend plans only
}

// Finalize implements [compute.Executable].
func (x *executable) Finalize() {
	if x.step != nil {
		x.backend.drop(x.step)
	}
}

// Inputs implements [compute.Executable].
func (x *executable) Inputs() (names []string, inputShapes []shapes.Shape) {
	for _, p := range x.graph.Parameters() {
		names = append(names, p.Node().Attr.(*graph.Input).Name)
	}
	return names, fromShapes(x.graph.Parameters())
}

// Outputs implements [compute.Executable].
func (x *executable) Outputs() []shapes.Shape { return fromShapes(x.graph.Outputs()) }

func fromShapes(values []graph.Value) []shapes.Shape {
	list := make([]shapes.Shape, len(values))
	for i, v := range values {
		list[i] = fromShape(v.Shape())
	}
	return list
}

// Execute implements [compute.Executable]. It returns when the step is done.
func (x *executable) Execute(inputs []compute.Buffer, donate []bool, dev compute.DeviceNum) (outputs []compute.Buffer, err error) {
	if err := onlyDevice(dev); err != nil {
		return nil, err
	}
	params := x.graph.Parameters()
	if len(inputs) != len(params) || donate != nil && len(donate) != len(inputs) {
		return nil, errors.WithStack(fmt.Errorf("%s: %w: %q takes %d inputs, not %d", Name, ErrArgument, x.graph.Name(), len(params), len(inputs)))
	}
	var used []*buffer
	defer func() {
		for _, buf := range used {
			if doneErr := buf.done(); err == nil {
				err = doneErr
			}
		}
	}()
	in := make([]*step.Tensor, len(inputs))
	given := make([]bool, len(inputs))
	for i, p := range params {
		buf, ok := inputs[i].(*buffer)
		if !ok || buf.backend != x.backend {
			return nil, errors.WithStack(fmt.Errorf("%s: %w: input %d of %q is no buffer of this backend", Name, ErrArgument, i, x.graph.Name()))
		}
		if want := fromShape(p.Shape()); !buf.shape.Equal(want) {
			return nil, errors.WithStack(fmt.Errorf("%s: %w: input %d of %q has to be %v, not %v", Name, ErrArgument, i, x.graph.Name(), want, buf.shape))
		}
		if given[i], err = buf.use(donate != nil && donate[i]); err != nil {
			return nil, err
		}
		used = append(used, buf)
		in[i] = buf.tensor
	}
	if x.step == nil {
		for _, shape := range x.Outputs() {
			outputs = append(outputs, &buffer{backend: x.backend, shape: shape})
		}
		return outputs, nil
	}
	out, err := x.step.Run(context.Background(), in, given)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	outputs = make([]compute.Buffer, len(out))
	for i, t := range out {
		outputs[i] = x.backend.newBuffer(t)
	}
	return outputs, nil
}
