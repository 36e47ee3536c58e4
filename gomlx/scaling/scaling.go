// Package scaling scales the losses of a training in float16 (amp=f16), whose small
// gradients are zero otherwise. It wraps an optimizer of GoMLX:
//
//	opt, err := scaling.New(optimizer.Adam().Done(), train.Scaler{})
//
// The loss is multiplied by a scale before gradients are taken, and gradients are divided
// by it. Where one is not finite, the step changes no weight and nothing of the
// optimizer's, and the scale is halved; after 2000 steps without such a gradient it is
// doubled. All of this is in the graph. The metrics of the trainer are those of the loss
// as it is.
package scaling

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	scaler "github.com/pinion-gpu/pinion/step/train"
)

// Scope has the scale, and how many steps in a row had finite gradients, in variables that
// checkpoints take along.
const Scope = "loss_scale"

// Optimizer scales losses. It cannot accumulate gradients, which train.Trainer takes of
// losses as they are.
type Optimizer struct {
	inner  optimizer.Interface
	scaler scaler.Scaler
}

var _ optimizer.Interface = (*Optimizer)(nil)

// New wraps an optimizer, such as Adam or SGD. It fails with [gomlx.ErrArgument] for one
// that takes no gradients (train.OptimizeWithGradients), and for a bad scaler.
func New(inner optimizer.Interface, s scaler.Scaler) (*Optimizer, error) {
	state, err := s.State()
	if err != nil {
		return nil, err
	}
	if _, ok := inner.(train.OptimizeWithGradients); !ok {
		return nil, fmt.Errorf("scaling: %w: %T takes no gradients, only losses", gomlx.ErrArgument, inner)
	}
	s.Initial = float64(math.Float32frombits(binary.LittleEndian.Uint32(state)))
	s.Growth, s.Backoff, s.Interval = cmp.Or(s.Growth, 2), cmp.Or(s.Backoff, 0.5), cmp.Or(s.Interval, 2000)
	return &Optimizer{inner, s}, nil
}

// UpdateGraph implements [optimizer.Interface].
func (o *Optimizer) UpdateGraph(scope *model.Scope, g *Graph, loss *Node) {
	own := scope.Store().Scope(Scope)
	scaleVar := own.VariableWithValue("scale", float32(o.scaler.Initial)).SetTrainable(false)
	goodVar := own.VariableWithValue("good_steps", float32(0)).SetTrainable(false)
	scale, good := scaleVar.NodeValue(g), goodVar.NodeValue(g)

	gradients := scope.BuildTrainableVariablesGradientsGraph(Mul(loss, ConvertDType(scale, loss.DType())))
	inverse := Reciprocal(scale)
	var finite *Node
	for i, d := range gradients {
		all := LogicalAll(IsFinite(d))
		if finite != nil {
			all = LogicalAnd(finite, all)
		}
		finite = all
		gradients[i] = Mul(d, ConvertDType(inverse, d.DType()))
	}

	before := map[string]*Node{}
	for v := range scope.Store().IterVariables() {
		if v.InUseByGraph(g) {
			before[v.Path()] = v.NodeValue(g)
		}
	}
	o.inner.(train.OptimizeWithGradients).UpdateGraphWithGradients(scope, gradients, loss.DType())
	for v := range scope.Store().IterVariables() {
		if !v.InUseByGraph(g) {
			continue
		}
		old := before[v.Path()]
		if old == nil { // a variable of the optimizer's, which was not in the graph before
			old = g.GetParameterByName(v.Path())
		}
		if updated := v.NodeValue(g); updated != old {
			v.SetNodeValue(Where(finite, updated, old))
		}
	}

	good = AddScalar(good, 1)
	grows := GreaterOrEqual(good, Scalar(g, good.DType(), float64(o.scaler.Interval)))
	grown := Where(grows, MulScalar(scale, o.scaler.Growth), scale)
	// A scale has a reciprocal, as a normal number.
	scaleVar.SetNodeValue(ClipScalar(Where(finite, grown, MulScalar(scale, o.scaler.Backoff)), 0x1p-100, 0x1p100))
	goodVar.SetNodeValue(Where(LogicalAnd(finite, LogicalNot(grows)), good, ZerosLike(good)))
}

// Clear implements [optimizer.Interface].
func (o *Optimizer) Clear(scope *model.Scope) error {
	return errors.Join(o.inner.Clear(scope), scope.Store().DeleteVariablesInScope("/"+Scope))
}
