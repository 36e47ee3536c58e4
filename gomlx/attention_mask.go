package gomlx

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/pkg/errors"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
)

// A mask of an attention is a bool for each query and key. The masks of padding, and causal
// ones, are conjunctions of masks that depend on the query alone, on the key alone, or on
// whether the key is behind the query. Attention as one operation does all of them:
//
//   - Causal is an option of the operation.
//   - A key that no query sees gets more elements, of a negative number, and the queries
//     get positive ones, so that its scores become so low that its weight is 0. Gradients
//     follow from that by themselves: those of keys and values with a weight of 0 are 0.
//   - The result of a query that sees no key, or is masked itself, is 0, and so is the
//     gradient that comes back to it.
//
// Scores are never in memory as a whole, and neither is the mask.

// masking is what a mask is a conjunction of.
type masking struct {
	causal        bool
	queries, keys []graph.Value // bools of [batch or 1, length]
}

func (m *masking) any() bool { return len(m.queries)+len(m.keys) > 0 }

// axes of scores: where a mask has them depends on the layout.
const (
	batchAxis = iota
	headsAxis
	queryAxis
	keyAxis
	noAxis = -1
)

// masks takes the masks of an attention apart. What cannot be, is not implemented.
func (f *function) masks(layout compute.AttentionAxesLayout, o *compute.ScaledDotProductAttentionConfig, q, k graph.Value) (m masking, err error) {
	m.causal = o.Causal
	scores := []int{batchAxis, headsAxis, queryAxis, keyAxis}
	length := 2
	if layout == compute.AttentionAxesLayoutBSHD {
		scores, length = []int{batchAxis, queryAxis, headsAxis, keyAxis}, 1
	}
	if o.Mask != nil {
		in, err := f.operands(o.Mask)
		if err != nil {
			return m, err
		}
		switch s := in[0].Shape(); {
		case s.Type != dtype.Bool || s.Rank() != 2 && s.Rank() != 4:
			return m, byParts("a mask of %v", s)
		case s.Rank() == 2:
			scores = []int{queryAxis, keyAxis}
		}
		if err := f.conjunct(&m, in[0], scores); err != nil {
			return m, err
		}
	}
	for _, l := range []struct {
		lengths compute.Value
		of      graph.Value
		list    *[]graph.Value
	}{{o.QuerySeqLen, q, &m.queries}, {o.KeyValueSeqLen, k, &m.keys}} {
		if l.lengths == nil {
			continue
		}
		in, err := f.operands(l.lengths)
		if err != nil {
			return m, err
		}
		n := in[0].Shape()
		if n.Rank() != 1 || n.Dims[0] != q.Shape().Dims[0] {
			return m, errors.WithStack(fmt.Errorf("%s: %w: attention with lengths of %v for a batch of %d", Name, ErrArgument, n, q.Shape().Dims[0]))
		}
		b := &maker{Graph: f.graph}
		at := b.keep(b.Iota(graph.MakeShape(n.Type, 1, l.of.Shape().Dims[length]), 1))
		*l.list = append(*l.list, b.keep(b.Binary(graph.Less, at, b.keep(b.Reshape(in[0], n.Dims[0], 1)))))
		if b.err != nil {
			return m, errors.WithStack(b.err)
		}
	}
	return m, nil
}

func byParts(format string, args ...any) error {
	return errors.Wrapf(compute.ErrNotImplemented, "%s: attention with "+format+" is computed by parts", append([]any{Name}, args...)...)
}

// conjunct adds a bool to a masking, axis i of which is scores' axis axes[i].
func (f *function) conjunct(m *masking, v graph.Value, axes []int) error {
	v, axes = seen(v, axes)
	if v.Node().Op == graph.And {
		for _, in := range v.Node().Inputs {
			// A scalar is repeated.
			if err := f.conjunct(m, in, axes[:in.Shape().Rank()]); err != nil {
				return err
			}
		}
		return nil
	}
	if data, ok := v.Node().Attr.(graph.Data); ok && !slices.Contains(data, 0) {
		return nil // true everywhere
	}
	over := map[int]bool{}
	dims := v.Shape().Dims
	for i, n := range dims {
		if n > 1 {
			over[axes[i]] = true
		}
	}
	size := func(axis int) int {
		if i := slices.Index(axes, axis); i >= 0 {
			return dims[i]
		}
		return 1
	}
	list, axis := &m.keys, keyAxis
	switch {
	case over[headsAxis]:
		return byParts("a mask for each head")
	case over[queryAxis] && over[keyAxis]:
		if over[batchAxis] || !causal(v, axes) {
			return byParts("a mask for each query and key")
		}
		m.causal = true
		return nil
	case over[queryAxis]:
		list, axis = &m.queries, queryAxis
	}
	// Axes of one element may be anywhere; those of more are in the order of the scores,
	// the batch first.
	flat, err := f.graph.Reshape(v, size(batchAxis), size(axis))
	*list = append(*list, flat)
	return errors.WithStack(err)
}

// seen is what a value repeats or reshapes, with the axes of scores that it lies along.
func seen(v graph.Value, axes []int) (graph.Value, []int) {
	for {
		n := v.Node()
		switch n.Op {
		case graph.BroadcastInDim:
			from := n.Inputs[0]
			var now []int
			for i, to := range n.Attr.(graph.Axes) {
				axis := axes[to]
				if from.Shape().Dims[i] == 1 {
					axis = noAxis
				}
				now = append(now, axis)
			}
			v, axes = from, now
		case graph.Reshape:
			from := n.Inputs[0]
			var left []int // axes of more than one element
			var dims []int
			for i, d := range v.Shape().Dims {
				if d != 1 {
					left, dims = append(left, axes[i]), append(dims, d)
				}
			}
			now := []int{}
			for _, d := range from.Shape().Dims {
				switch {
				case d == 1:
					now = append(now, noAxis)
				case len(dims) > 0 && dims[0] == d:
					now = append(now, left[0])
					left, dims = left[1:], dims[1:]
				default:
					return v, axes // elements are in other rows
				}
			}
			v, axes = from, now
		default:
			return v, axes
		}
	}
}

// causal reports whether a bool says for each query and key that the key is not behind the
// query: places are compared.
func causal(v graph.Value, axes []int) bool {
	query, key := 0, 1
	switch v.Node().Op {
	case graph.GreaterOrEqual:
	case graph.LessOrEqual:
		query, key = 1, 0
	default:
		return false
	}
	return place(v, axes, query, queryAxis) && place(v, axes, key, keyAxis)
}

// place reports whether an operand of a comparison is the place along an axis of the scores.
func place(v graph.Value, axes []int, operand, axis int) bool {
	in, at := seen(v.Node().Inputs[operand], axes)
	n := in.Node()
	return n.Op == graph.Iota && at[n.Attr.(graph.Axis)] == axis
}

// maker adds operations to a graph until one fails.
type maker struct {
	*graph.Graph
	err error
}

func (b *maker) keep(v graph.Value, err error) graph.Value {
	if b.err == nil {
		b.err = err
	}
	return v
}

// Keys that are masked get scores lower by this. Other scores are nearer to 0 than half of
// it, so that a query whose sum is below that sees no key.
const masked = 1e5

// mostMasked is the largest head that a mask goes with: with more elements, it is still one
// that the fast kernels take.
const mostMasked = 120

// maskedOperands are queries, keys and values with so many elements more that heads have a
// multiple of 8, and those of masked keys lower their scores.
func (f *function) maskedOperands(m masking, a graph.AttentionOptions, q, k, v graph.Value) (in [3]graph.Value, err error) {
	if len(m.keys) == 0 {
		return [3]graph.Value{q, k, v}, nil
	}
	b := &maker{Graph: f.graph}
	t, each := q.Shape().Type, q.Shape().Dims[3]
	more := 8 - each%8
	number := math.Sqrt(masked / (math.Abs(a.Scale) * float64(more)))
	if number > 6e4 { // f16 has no more
		return in, byParts("a mask and a scale of %g", a.Scale)
	}
	sees := b.all(m.keys)
	length := 2
	if a.HeadsBehind {
		length = 1
	}
	dims := append([]int{}, k.Shape().Dims...)
	dims[3] = more
	at := []int{sees.Shape().Dims[0], 1, 1, 1}
	at[length] = sees.Shape().Dims[1]
	if at[length] != 1 && at[length] != dims[length] {
		return in, errors.WithStack(fmt.Errorf("%s: %w: a mask of %v for keys of %v", Name, ErrArgument, sees.Shape(), k.Shape()))
	}
	zero := b.keep(b.Fill(0, graph.MakeShape(t)))
	low := b.keep(b.Fill(-math.Copysign(number, a.Scale), graph.MakeShape(t)))
	column := b.keep(b.Where(b.keep(b.Reshape(sees, at...)), zero, low))
	column = b.keep(b.BroadcastInDim(column, dims, []int{0, 1, 2, 3}))
	in = [3]graph.Value{
		b.padded(q, more, number),
		b.keep(b.Concatenate(3, k, column)),
		b.padded(v, more, 0),
	}
	return in, errors.WithStack(b.err)
}

// all is the conjunction of bools.
func (b *maker) all(list []graph.Value) graph.Value {
	v := list[0]
	for _, w := range list[1:] {
		v = b.keep(b.Binary(graph.And, v, w))
	}
	return v
}

// padded has so many elements more along the last axis.
func (b *maker) padded(x graph.Value, more int, fill float64) graph.Value {
	none := make([]int, 4)
	return b.keep(b.Pad(x, b.keep(b.Fill(fill, graph.MakeShape(x.Shape().Type))), graph.Padding{Low: none, High: []int{0, 0, 0, more}, Interior: none}))
}

// cut is what was there before elements were added.
func (b *maker) cut(x graph.Value, each int) graph.Value {
	if x.Shape().Rank() != 4 || x.Shape().Dims[3] == each {
		return x
	}
	limits := append([]int{}, x.Shape().Dims...)
	limits[3] = each
	return b.keep(b.Slice(x, make([]int, 4), limits, nil))
}

// seeing is x where a query sees something, and 0 elsewhere; sums are those of the
// attention.
func (b *maker) seeing(m masking, a graph.AttentionOptions, x, sums graph.Value) graph.Value {
	if !m.any() {
		return x
	}
	length := 2
	if a.HeadsBehind {
		length = 1
	}
	var sees []graph.Value
	if len(m.keys) > 0 {
		v := b.keep(b.Binary(graph.Greater, sums, b.keep(b.Fill(-masked/2, graph.MakeShape(sums.Shape().Type)))))
		if a.HeadsBehind {
			v = b.keep(b.Transpose(v, 0, 2, 1))
		}
		sees = append(sees, b.keep(b.Reshape(v, append(append([]int{}, v.Shape().Dims...), 1)...)))
	}
	if len(m.queries) > 0 {
		v := b.all(m.queries)
		at := []int{v.Shape().Dims[0], 1, 1, 1}
		at[length] = v.Shape().Dims[1]
		sees = append(sees, b.keep(b.Reshape(v, at...)))
	}
	zero := b.keep(b.Fill(0, graph.MakeShape(x.Shape().Type)))
	return b.keep(b.Where(b.all(sees), x, zero))
}
