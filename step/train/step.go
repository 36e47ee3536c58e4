package train

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/autocast"
)

// Step is the graph of a training step on one micro-batch, and what its values are. All
// parameters of the graph are in Batch or in State.
type Step struct {
	Graph *graph.Graph
	Batch []graph.Value // parameters that each micro-batch brings
	State []State       // parameters that last: weights, an optimizer's state

	// Loss is a scalar of type float32: the mean over the micro-batch.
	Loss graph.Value

	// Gradients are the values through which the update depends on the batch, each the
	// mean over the micro-batch: of the loss, or of the scaled loss before
	// [Scaler.Unscale]. Accumulation and ranks ask for them, and for all of them.
	Gradients []graph.Value

	// SplitOver is how many ranks the step is split over, of which it is one's, as package
	// spmd does: they run it as it is, and all have the same samples. Default: 0, it is
	// whole, and ranks have samples of their own.
	SplitOver int

	// Scale is the parameter with the state of a [Scaler], and one of State. Default: none.
	Scale graph.Value
}

// State is a parameter that lasts from step to step.
type State struct {
	Param graph.Value

	// Next takes its place after the step; it has the same shape. Default: none, the
	// parameter stays as it is.
	Next graph.Value

	// Each says that Next is there after each micro-batch, and not only after the update:
	// the state of random numbers, or means that normalisations keep. The update does not
	// depend on such a parameter.
	Each bool

	// Part says what Param is a part of, for checkpoints. Where ranks split the step, they
	// need it of all of the state. Default: nil, Param is all of it.
	Part *Part
}

// Part is a rank's part of a parameter that ranks split ([Step].SplitOver).
type Part struct {
	Whole graph.Shape // of the parts of all ranks, one behind the other
	Axis  int         // along which they are; negative: each rank has all of it
}

// piece is which elements a rank has: some of each row of so many; 0: of the whole.
func (p *Part) piece(ranks, rank int) (row, from, n int64) {
	if p.Axis < 0 || p.Whole.Size() == 0 {
		return 0, 0, int64(p.Whole.Size())
	}
	all := int64(1)
	for _, d := range p.Whole.Dims[p.Axis:] {
		all *= int64(d)
	}
	n = all / int64(ranks)
	return all, int64(rank) * n, n
}

// fits reports whether a parameter can be the part.
func (p *Part) fits(param graph.Shape, ranks int) bool {
	dims := slices.Clone(p.Whole.Dims)
	if ranks < 1 || p.Axis >= len(dims) || p.Axis >= 0 && dims[p.Axis]%ranks != 0 {
		return false
	}
	if p.Axis >= 0 {
		dims[p.Axis] /= ranks
	}
	return p.Whole.Type == param.Type && slices.Equal(dims, param.Dims)
}

func (s *Step) check(accumulate int) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("train: %w: %s", ErrArgument, fmt.Sprintf(format, args...))
	}
	if s.Graph == nil {
		return bad("a step without a graph")
	}
	if s.Loss == (graph.Value{}) {
		return bad("a step without a loss")
	}
	if !s.Loss.Shape().Equal(graph.MakeShape(dtype.F32)) {
		return bad("the loss is %v, and not one float32", s.Loss.Shape())
	}
	var named []graph.Value
	named = append(named, s.Batch...)
	for _, st := range s.State {
		named = append(named, st.Param)
		if st.Next != (graph.Value{}) && !st.Next.Shape().Equal(st.Param.Shape()) {
			return bad("%v takes the place of %s, and is %v instead of %v", st.Next, describe(st.Param), st.Next.Shape(), st.Param.Shape())
		}
		if st.Part != nil && !st.Part.fits(st.Param.Shape(), s.SplitOver) {
			return bad("%s of %v is no part of %v that %d ranks split along axis %d", describe(st.Param), st.Param.Shape(), st.Part.Whole, s.SplitOver, st.Part.Axis)
		}
	}
	params := s.Graph.Parameters()
	for i, v := range named {
		if !slices.Contains(params, v) || slices.Contains(named[:i], v) {
			return bad("%v, which is batch or state, is no parameter of the graph, or is there twice", v)
		}
	}
	for _, p := range params {
		if !slices.Contains(named, p) {
			return bad("parameter %q is neither batch nor state", saved.Name(p))
		}
	}
	if s.Scale != (graph.Value{}) {
		if err := checkState(s.Scale); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.State, func(st State) bool { return st.Param == s.Scale }) {
			return bad("the scaler's %v is no state", s.Scale)
		}
	}
	if accumulate < 1 || accumulate > 1 && len(s.Gradients) == 0 {
		return bad("%d micro-batches a step, with %d gradients", accumulate, len(s.Gradients))
	}
	for _, v := range s.Gradients {
		switch v.Shape().Type {
		case dtype.F16, dtype.BF16, dtype.F32, dtype.F64:
		default:
			return bad("a gradient of %v", v.Shape())
		}
	}
	return nil
}

// describe names any value: a parameter as the user does.
func describe(v graph.Value) string {
	if v != (graph.Value{}) && v.Node().Op == graph.Parameter {
		return fmt.Sprintf("parameter %q", saved.Name(v))
	}
	return v.String()
}

// division is a step as the graphs that run: one for each micro-batch, and one for the
// update, if there are several micro-batches.
type division struct {
	micro, update *graph.Graph // parameters: batch, state, sums, whether it is the first; state, sums

	updateState           []int         // which of State are parameters of the update
	microNext, updateNext []int         // which of State have results; those of micro follow the loss and the sums
	sums                  []graph.Shape // of gradients
	shared                int64         // bytes of parameters of both
}

// divide takes a step apart.
func (s *Step) divide(accumulate int, amp dtype.DType) (*division, error) {
	if err := s.check(accumulate); err != nil {
		return nil, err
	}
	d := &division{}
	inputs, outputs := slices.Clone(s.Batch), []graph.Value{s.Loss}
	var updateInputs, updateOutputs []graph.Value
	for i, st := range s.State {
		inputs = append(inputs, st.Param)
		if !st.Each {
			updateInputs = append(updateInputs, st.Param)
			d.updateState = append(d.updateState, i)
		}
		switch {
		case st.Next == (graph.Value{}):
		case st.Each || accumulate == 1:
			outputs = append(outputs, st.Next)
			d.microNext = append(d.microNext, i)
		default:
			updateOutputs = append(updateOutputs, st.Next)
			d.updateNext = append(d.updateNext, i)
		}
	}
	var err error
	if accumulate == 1 {
		if d.micro, err = s.Graph.Part(inputs, outputs); err != nil {
			return nil, err
		}
		return d, d.autocast(amp)
	}
	if d.micro, err = s.Graph.Part(inputs, slices.Insert(outputs, 1, s.Gradients...)); err != nil {
		return nil, err
	}
	update, err := s.Graph.Part(append(slices.Clone(updateInputs), s.Gradients...), updateOutputs)
	if err != nil {
		return nil, fmt.Errorf("train: an update may depend on a batch through the gradients alone: %w", err)
	}
	if err := d.addUp(len(s.Gradients)); err != nil {
		return nil, err
	}
	if err := d.mean(update, len(updateInputs), accumulate); err != nil {
		return nil, err
	}
	for _, v := range updateInputs {
		d.shared += aligned(v.Shape())
	}
	for _, sum := range d.sums {
		d.shared += aligned(sum)
	}
	return d, d.autocast(amp)
}

// addUp makes sums of the gradients, which follow the loss.
func (d *division) addUp(gradients int) error {
	b := &builder{Graph: d.micro}
	outputs := slices.Clone(d.micro.Outputs())
	var before []graph.Value
	for i, v := range outputs[1 : 1+gradients] {
		t := dtype.F32
		if v.Shape().Type == dtype.F64 {
			t = dtype.F64
		}
		d.sums = append(d.sums, v.Shape().With(t))
		before = append(before, b.do(func() (graph.Value, error) {
			return b.Parameter(fmt.Sprintf("sum of gradient %d", i), v.Shape().With(t))
		}))
	}
	first := b.do(func() (graph.Value, error) { return b.Parameter("first micro-batch", graph.MakeShape(dtype.Bool)) })
	for i, sum := range before {
		v := b.convert(outputs[1+i], sum.Shape().Type)
		outputs[1+i] = b.where(first, v, b.binary(graph.Add, sum, v))
	}
	if b.err != nil {
		return b.err
	}
	return b.SetOutputs(outputs...)
}

// mean gives an update the means of the gradients, of what was added up.
func (d *division) mean(update *graph.Graph, state, accumulate int) error {
	d.update = graph.New(update.Name() + ": update")
	b := &builder{Graph: d.update}
	params := update.Parameters()
	var args []graph.Value
	for _, p := range params[:state] {
		args = append(args, b.do(func() (graph.Value, error) { return b.Parameter(saved.Name(p), p.Shape()) }))
	}
	for i, p := range params[state:] {
		sum := b.do(func() (graph.Value, error) { return b.Parameter(fmt.Sprintf("sum of gradient %d", i), d.sums[i]) })
		mean := b.binary(graph.Mul, sum, b.number(1/float64(accumulate), d.sums[i].Type))
		args = append(args, b.convert(mean, p.Shape().Type))
	}
	if b.err != nil {
		return b.err
	}
	outputs, err := b.Inline(update, args...)
	if err != nil {
		return err
	}
	return b.SetOutputs(outputs...)
}

func (d *division) autocast(t dtype.DType) (err error) {
	if t == 0 {
		return nil
	}
	if d.micro, err = autocast.Graph(d.micro, t); err == nil && d.update != nil {
		d.update, err = autocast.Graph(d.update, t)
	}
	return err
}

// aligned is what a value takes of a device, as plans count it.
func aligned(s graph.Shape) int64 { return (s.Bytes() + 255) / 256 * 256 }
