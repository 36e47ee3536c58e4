// Package ranks trains GoMLX's models on several ranks, each with batches of its own: an
// optimizer around another one, which is given the means of all ranks' gradients.
//
//	backend, err := gomlx.Open(gomlx.Options{Ranks: comm})
//	opt, err := ranks.New(optimizer.Adam().Done())
//	trainer := train.NewTrainer(backend, store, model, loss, opt, nil, nil)
//
// Ranks begin with the same weights, as models with the same seed do, and keep the same.
// Each feeds its share of the data: loader.Options has Rank and WorldSize. Gradients that
// are computed early are reduced while others are computed. With
// train.Trainer.AccumulateGradients, ranks meet once for all batches of a step; package
// scaling goes around this one.
package ranks

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
)

// Optimizer is an [optimizer.Interface] that updates weights by the means of all ranks'
// gradients.
type Optimizer struct{ inner optimizer.Interface } // and withGradients

// withGradients is what GoMLX's optimizers implement, and train.AccumulateGradients asks
// for.
type withGradients interface {
	UpdateGraphWithGradients(scope *model.Scope, gradients []*graph.Node, lossDType dtypes.DType)
}

// New makes an optimizer that gives inner the means of gradients. It fails with
// [gomlx.ErrArgument] if inner takes no gradients; GoMLX's SGD and Adam do.
func New(inner optimizer.Interface) (*Optimizer, error) {
	if _, ok := inner.(withGradients); !ok {
		return nil, fmt.Errorf("ranks: %w: %T takes no gradients", gomlx.ErrArgument, inner)
	}
	return &Optimizer{inner}, nil
}

// Unwrap returns the optimizer that is given the means.
func (o *Optimizer) Unwrap() optimizer.Interface { return o.inner }

// UpdateGraph implements [optimizer.Interface].
func (o *Optimizer) UpdateGraph(scope *model.Scope, g *graph.Graph, loss *graph.Node) {
	o.UpdateGraphWithGradients(scope, scope.BuildTrainableVariablesGradientsGraph(loss), loss.DType())
}

// UpdateGraphWithGradients is what train.AccumulateGradients calls.
func (o *Optimizer) UpdateGraphWithGradients(scope *model.Scope, gradients []*graph.Node, lossDType dtypes.DType) {
	o.inner.(withGradients).UpdateGraphWithGradients(scope, o.Mean(gradients), lossDType)
}

// Mean returns the means of all ranks' gradients. Those that are no floating-point numbers
// stay as they are.
func (o *Optimizer) Mean(gradients []*graph.Node) []*graph.Node {
	means := make([]*graph.Node, len(gradients))
	for i, x := range gradients {
		if means[i] = x; x.DType().IsFloat() {
			means[i] = Mean(x)
		}
	}
	return means
}

// Clear implements [optimizer.Interface].
func (o *Optimizer) Clear(scope *model.Scope) error { return o.inner.Clear(scope) }

// Mean returns the mean of what ranks have for x, of floating-point numbers. On a backend
// without ranks, or another one than Pinion's, it is x. No gradient passes through it.
func Mean(x *graph.Node) *graph.Node {
	x = graph.Identity(x) // a node whose number nothing else has
	f := graph.NewFunction(x.Graph(), fmt.Sprintf("%s %d", gomlx.MeanOfRanks, x.Id()), func(g *graph.Graph) []*graph.Node {
		return []*graph.Node{graph.Parameter(g, "x", x.Shape())}
	})
	return f.Call(x)[0]
}
