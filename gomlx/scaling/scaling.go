// Package scaling scales the losses of GoMLX's trainer for f16, whose small gradients
// are zero otherwise: an optimizer around another one.
//
//	backend, err := gomlx.New("cuda:0,amp=f16")
//	opt, err := scaling.New(optimizer.Adam().Done(), scaling.Scaler{})
//	trainer := train.NewTrainer(backend, store, model, loss, opt, nil, nil)
//
// bf16 needs none of this.
package scaling

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx/ranks"
	"github.com/pinion-gpu/pinion/step/train"
)

// Scaler says how the scale begins and adapts; its zero value is PyTorch's GradScaler. It is
// that of package step/train, whose methods are for graphs of package step.
type Scaler = train.Scaler

// Scope is where the state is among the variables of a model: "scaler", three float32: the
// scale, how many steps in a row had finite gradients, and how many were left out.
const Scope = "loss_scaling"

const variable = "scaler"

// Optimizer is an [optimizer.Interface] that scales losses.
type Optimizer struct {
	inner   optimizer.Interface // and withGradients
	scaler  Scaler
	initial []float32
}

// withGradients is what GoMLX's optimizers implement, and train.AccumulateGradients asks
// for.
type withGradients interface {
	UpdateGraphWithGradients(scope *model.Scope, gradients []*graph.Node, lossDType dtypes.DType)
}

// New makes an optimizer that computes the gradients of the scaled loss, and gives inner
// those of the loss. If one of them is not finite, everything that inner changed stays as it
// was: weights, its own state, and the global step. It fails with train.ErrArgument if the
// scaler cannot be right, or inner takes no gradients; GoMLX's SGD and Adam do.
//
// It does not go with Trainer.AccumulateGradients, which computes gradients without asking
// the optimizer, and refuses it.
func New(inner optimizer.Interface, s Scaler) (*Optimizer, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	if _, ok := inner.(withGradients); !ok {
		return nil, fmt.Errorf("scaling: %w: %T takes no gradients", train.ErrArgument, inner)
	}
	state, err := s.State()
	if err != nil {
		return nil, err
	}
	o := &Optimizer{inner: inner, scaler: s}
	for ; len(state) >= 4; state = state[4:] {
		o.initial = append(o.initial, math.Float32frombits(binary.LittleEndian.Uint32(state)))
	}
	return o, nil
}

// UpdateGraph implements [optimizer.Interface].
func (o *Optimizer) UpdateGraph(scope *model.Scope, g *graph.Graph, loss *graph.Node) {
	stateVar := scope.At(Scope).VariableWithValue(variable, o.initial).SetTrainable(false)
	state := stateVar.NodeValue(g)
	element := func(i int) *graph.Node { return graph.Reshape(graph.Slice(state, graph.AxisElem(i))) }
	scale, good, skipped := element(0), element(1), element(2)

	gradients := scope.BuildTrainableVariablesGradientsGraph(graph.Mul(loss, graph.ConvertDType(scale, loss.DType())))
	update := o.inner.(withGradients).UpdateGraphWithGradients
	together, onRanks := o.inner.(*ranks.Optimizer)
	if onRanks {
		gradients, update = together.Mean(gradients), together.UpdateGraphWithMeans
	}
	finite := graph.Const(g, true)
	inverse := graph.Reciprocal(scale)
	for i, v := range gradients {
		if !v.DType().IsFloat() {
			continue // such as the state of random numbers that a checkpoint brought, whose gradient is 0
		}
		finite = graph.LogicalAnd(finite, graph.LogicalAll(graph.IsFinite(v)))
		gradients[i] = graph.Mul(v, graph.ConvertDType(inverse, v.DType()))
	}
	if onRanks { // all leave a step out, or none
		finite = together.All(finite)
	}

	before := map[*model.Variable]*graph.Node{}
	for v := range scope.Store().IterVariables() {
		if v.InUseByGraph(g) {
			before[v] = v.NodeValue(g)
		}
	}
	update(scope, gradients, loss.DType())
	var changed []*model.Variable
	for v := range scope.Store().IterVariables() {
		if v.ChangedInGraph(g) {
			changed = append(changed, v)
		}
	}
	slices.SortFunc(changed, func(a, b *model.Variable) int { return strings.Compare(a.Path(), b.Path()) })
	for _, v := range changed {
		old := before[v]
		if old == nil { // the inner optimizer's own
			old = g.GetParameterByName(v.Path())
		}
		if now := v.NodeValue(g); old != nil && now != old {
			v.SetNodeValue(graph.Where(finite, now, old))
		}
	}

	zero := graph.ScalarZero(g, dtypes.Float32)
	number := func(x float64) *graph.Node { return graph.Const(g, float32(x)) }
	good = graph.AddScalar(good, 1)
	grows := graph.GreaterOrEqual(good, number(float64(o.scaler.Interval)))
	grown := graph.Min(graph.MulScalar(scale, o.scaler.Growth), number(train.MostScale))
	shrunk := graph.Max(graph.MulScalar(scale, o.scaler.Backoff), number(train.LeastScale))
	stateVar.SetNodeValue(graph.Stack([]*graph.Node{
		graph.Where(finite, graph.Where(grows, grown, scale), shrunk),
		graph.Where(graph.LogicalAnd(finite, graph.LogicalNot(grows)), good, zero),
		graph.Where(finite, zero, graph.AddScalar(skipped, 1)),
	}, 0))
}

// Clear implements [optimizer.Interface].
func (o *Optimizer) Clear(scope *model.Scope) error {
	if err := scope.At(Scope).DeleteVariable(variable); err != nil {
		return err
	}
	return o.inner.Clear(scope)
}

// State reads the scale, and how many steps in a row were left out, from a model's
// variables. Before the first step there are none.
func State(store *model.Store) (scale float64, skipped int, ok bool) {
	v := store.GetVariable("/" + Scope + "/" + variable)
	if v == nil || !v.HasValue() {
		return 0, 0, false
	}
	value, err := v.Value()
	if err != nil {
		return 0, 0, false
	}
	numbers, err := tensors.CopyFlatData[float32](value)
	if err != nil || len(numbers) != 3 {
		return 0, 0, false
	}
	return float64(numbers[0]), int(numbers[2]), true
}
