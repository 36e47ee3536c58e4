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
// scaling goes around this one. With gomlx.Options.Average, gradients may travel in 16 bits.
//
// # Shared updates
//
// Ranks that make the same update keep the same moments: for Adam, twice the weights.
// [Share] has each keep a part of them, and update a part of the weights:
//
//	opt, err := ranks.Share(optimizer.Adam().Done())
//
// Weights are whole on all ranks, and as much travels as before. It is stages 1 and 2 of
// ZeRO: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models, SC 2020. But sums of gradients of train.Trainer.AccumulateGradients are GoMLX's,
// and whole on each rank.
//
// The optimizer's variables are then shares, others on each rank. All ranks save together,
// and any number of ranks goes on:
//
//	err = opt.Save(ctx, "run/state", comm, store, nil)
//	meta, err := opt.Load(ctx, "run/state", comm, store) // before the first step
package ranks

import (
	"fmt"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
)

// Optimizer is an [optimizer.Interface] that updates weights by the means of all ranks'
// gradients.
type Optimizer struct {
	inner  optimizer.Interface // and withGradients
	shares bool                // of updates

	mu   sync.Mutex
	kept map[string][]int // variables that inner keeps of weights, by path, with the weights' dimensions
}

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
	return &Optimizer{inner: inner, kept: map[string][]int{}}, nil
}

// Unwrap returns the optimizer that is given the means.
func (o *Optimizer) Unwrap() optimizer.Interface { return o.inner }

// UpdateGraph implements [optimizer.Interface].
func (o *Optimizer) UpdateGraph(scope *model.Scope, g *graph.Graph, loss *graph.Node) {
	o.UpdateGraphWithGradients(scope, scope.BuildTrainableVariablesGradientsGraph(loss), loss.DType())
}

// UpdateGraphWithGradients is what train.AccumulateGradients calls.
func (o *Optimizer) UpdateGraphWithGradients(scope *model.Scope, gradients []*graph.Node, lossDType dtypes.DType) {
	o.UpdateGraphWithMeans(scope, o.Mean(gradients), lossDType)
}

// Mean returns the means of all ranks' gradients; of those that ranks share, this rank's
// share, which is a vector. Those that are no floating-point numbers stay as they are.
func (o *Optimizer) Mean(gradients []*graph.Node) []*graph.Node {
	means := make([]*graph.Node, len(gradients))
	for i, x := range gradients {
		if means[i] = x; x.DType().IsFloat() {
			if s := o.shareOf(x.Graph(), x.Shape().Size()); s != nil {
				means[i] = s.mean(x)
			} else {
				means[i] = mean(gomlx.MeanOfGradients, x)
			}
		}
	}
	return means
}

// All returns whether x, a bool made of what [Optimizer.Mean] has returned, is true on all
// ranks, each of which may have its share only.
func (o *Optimizer) All(x *graph.Node) *graph.Node {
	if !o.shares {
		return x // the means are the same
	}
	failed := graph.ConvertDType(graph.LogicalNot(x), dtypes.Float32)
	return graph.Equal(Mean(failed), graph.ZerosLike(failed))
}

// UpdateGraphWithMeans is UpdateGraphWithGradients for what [Optimizer.Mean] has returned,
// or numbers made of that element by element.
func (o *Optimizer) UpdateGraphWithMeans(scope *model.Scope, means []*graph.Node, lossDType dtypes.DType) {
	inner := o.inner.(withGradients)
	if len(means) == 0 {
		inner.UpdateGraphWithGradients(scope, means, lossDType)
		return
	}
	weights, g, before := o.weights(scope, means), means[0].Graph(), 0
	func() {
		for _, w := range weights {
			defer w.cut()() // whole again behind this, also if inner panics
		}
		before = len(g.Nodes())
		inner.UpdateGraphWithGradients(scope, means, lossDType)
	}()
	o.see(scope, g, weights, before)
	for _, w := range weights {
		w.gather()
	}
}

// Clear implements [optimizer.Interface].
func (o *Optimizer) Clear(scope *model.Scope) error { return o.inner.Clear(scope) }

// Mean returns the mean of what ranks have for x, of floating-point numbers. On a backend
// without ranks, or another one than Pinion's, it is x. No gradient passes through it. The
// type is that of x, whatever the backend averages gradients in.
func Mean(x *graph.Node) *graph.Node { return mean(gomlx.MeanOfRanks, x) }

// mean is one of the means that the backend knows.
func mean(name string, x *graph.Node) *graph.Node {
	return together(name, func(in []*graph.Node) *graph.Node { return in[0] }, x)
}

// together calls a function that the backend knows by how its name begins. alone is what
// the function does where there are no ranks, and gives the result its shape.
func together(name string, alone func(in []*graph.Node) *graph.Node, in ...*graph.Node) *graph.Node {
	in[0] = graph.Identity(in[0]) // a node whose number nothing else has
	f := graph.NewFunction(in[0].Graph(), fmt.Sprintf("%s %d", name, in[0].Id()), func(g *graph.Graph) []*graph.Node {
		params := make([]*graph.Node, len(in))
		for i, x := range in {
			params[i] = graph.Parameter(g, fmt.Sprint("x", i), x.Shape())
		}
		return []*graph.Node{alone(params)}
	})
	return f.Call(in...)[0]
}
