package ranks

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/parallel"
)

// Share makes an optimizer as [New] does, of whose work each rank does a share: it gets its
// share of the mean of a gradient, inner updates that share of the weight, with moments of
// that size, and all ranks get the new weight of all. A weight is a vector for inner, and
// the last share is filled up with zeros. Weights of fewer than 16 elements for each rank
// are updated as a whole. On one rank, or a backend without ranks, it is as New's.
//
// What inner does has to go element by element, as GoMLX's SGD and Adam do. Anything else
// is refused with [gomlx.ErrArgument] when the graph of a step is built: so is Adam with
// optimizer.ParamClipNaN, which looks at all elements of a gradient.
func Share(inner optimizer.Interface) (*Optimizer, error) {
	o, err := New(inner)
	if err != nil {
		return nil, err
	}
	o.shares = true
	return o, nil
}

// leastShare is how many elements of a value each rank has at least: less is not worth an
// operation.
const leastShare = 16

// share is how ranks share a value.
type share struct {
	rank, ranks int
	elements    int // of the whole value
	each        int // of a rank, the last of which may have fewer that count
}

// newShare returns nil for a value that is not shared.
func newShare(comm parallel.Comm, elements int) *share {
	if comm == nil || comm.Size() < 2 || elements < comm.Size()*leastShare {
		return nil
	}
	n := comm.Size()
	return &share{comm.Rank(), n, elements, (elements + n - 1) / n}
}

// shareOf is how ranks share a gradient of so many elements; nil: they do not.
func (o *Optimizer) shareOf(g *graph.Graph, elements int) *share {
	b, ok := g.Backend().(interface{ Ranks() parallel.Comm })
	if !ok || !o.shares {
		return nil
	}
	return newShare(b.Ranks(), elements)
}

// of is where this rank's share begins, and how many of its elements count.
func (s *share) of() (from, n int) {
	from = min(s.rank*s.each, s.elements)
	return from, min(s.each, s.elements-from)
}

// flat is a value as a vector that all ranks have as much of.
func (s *share) flat(x *graph.Node) *graph.Node {
	x = graph.Reshape(x, s.elements)
	if more := s.each*s.ranks - s.elements; more > 0 {
		x = graph.Pad(x, graph.ScalarZero(x.Graph(), x.DType()), compute.PadAxis{End: more})
	}
	return x
}

// mean is this rank's share of the mean of what ranks have.
func (s *share) mean(x *graph.Node) *graph.Node {
	return together(gomlx.ShareOfMean, func(in []*graph.Node) *graph.Node {
		return graph.Slice(in[0], graph.AxisRange(0, s.each))
	}, s.flat(x))
}

// own is this rank's share of a value that all have.
func (s *share) own(x *graph.Node) *graph.Node {
	return graph.Slice(s.flat(x), graph.AxisRange(s.rank*s.each, (s.rank+1)*s.each))
}

// whole is the value that ranks have shares of, which takes the place of another, into.
func (s *share) whole(x, into *graph.Node) *graph.Node {
	return together(gomlx.GatherFromRanks, func(in []*graph.Node) *graph.Node { return in[1] }, x, into)
}

// weight is a variable that is trained.
type weight struct {
	*model.Variable
	mean  *graph.Node // of its gradient, or this rank's share of that
	share *share      // nil: it is updated as a whole
	shape shapes.Shape
	value *graph.Node // before the update
	own   *graph.Node // this rank's share of it
}

// weights are those that the means are for.
func (o *Optimizer) weights(scope *model.Scope, means []*graph.Node) (list []*weight) {
	if len(means) == 0 {
		return nil
	}
	g := means[0].Graph()
	for v := range scope.IterVariables() {
		if v.Trainable && v.InUseByGraph(g) {
			list = append(list, &weight{Variable: v, shape: v.Shape().Clone(), value: v.NodeValue(g)})
		}
	}
	if len(list) != len(means) {
		panic(fmt.Errorf("ranks: %w: %d gradients for %d variables that are trained", gomlx.ErrArgument, len(means), len(list)))
	}
	for i, w := range list {
		w.mean = means[i]
		if w.mean.DType().IsFloat() {
			w.share = o.shareOf(g, w.shape.Size())
		}
	}
	return list
}

// cut makes the variable this rank's share of it for who builds a graph, until undo makes
// it whole. The share has the name of the weight, and no variable, and no memory, of its
// own.
func (w *weight) cut() (undo func()) {
	if w.share == nil {
		return func() {}
	}
	var value *tensors.Tensor
	if w.HasValue() {
		value = w.MustValue()
	}
	w.own = w.share.own(w.value)
	w.SetNodeValue(w.own)
	w.reshape(w.own.Shape())
	return func() {
		if value == nil {
			w.reshape(w.shape)
		} else if err := w.SetValuePreservingOld(value); err != nil {
			panic(err)
		}
	}
}

// reshape gives the variable another shape, and no value: a shape is that of the last value.
func (w *weight) reshape(s shapes.Shape) {
	for _, value := range []*tensors.Tensor{tensors.FromShape(s), nil} {
		if err := w.SetValuePreservingOld(value); err != nil {
			panic(err)
		}
	}
}

// gather makes the new weight of the shares that ranks have updated.
func (w *weight) gather() {
	switch now := w.NodeValue(w.mean.Graph()); {
	case w.share == nil:
	case now == w.own:
		w.SetNodeValue(w.value)
	default:
		w.SetNodeValue(w.share.whole(now, w.value))
	}
}
