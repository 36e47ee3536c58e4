package graph

import (
	"math"

	"github.com/pinion-gpu/pinion/dtype"
)

// AttentionOptions say how an [Attention] reads its operands and what it leaves out.
type AttentionOptions struct {
	// HeadsBehind: operands have the axes [batch, length, heads, each]. Default: false,
	// [batch, heads, length, each].
	HeadsBehind bool

	// Causal: a query sees no keys behind its own place, counted from the first of both.
	Causal bool

	// Scale is what scores are multiplied by. Default: 0, one over the square root of
	// the elements of each head.
	Scale float64
}

// AttentionSizes are the dimensions of an attention.
type AttentionSizes struct {
	Batch, Heads    int
	KeyHeads        int // heads of keys and values, each of which Heads/KeyHeads neighbouring heads share
	Queries, Keys   int // the lengths
	Each            int // elements of a head
	length, headsAt int // axes
}

// sizes takes the dimensions from queries and keys.
func (a AttentionOptions) sizes(q, k Shape) AttentionSizes {
	s := AttentionSizes{headsAt: 1, length: 2}
	if a.HeadsBehind {
		s.headsAt, s.length = 2, 1
	}
	s.Batch, s.Each = q.Dims[0], q.Dims[3]
	s.Heads, s.KeyHeads = q.Dims[s.headsAt], k.Dims[s.headsAt]
	s.Queries, s.Keys = q.Dims[s.length], k.Dims[s.length]
	return s
}

// AttentionOf returns what an [Attention] or an [AttentionBackward] has to know, with the
// scale that it uses.
func AttentionOf(n *Node) (AttentionOptions, AttentionSizes) {
	a := *n.Attr.(*AttentionOptions)
	s := a.sizes(n.Inputs[0].Shape(), n.Inputs[1].Shape())
	if a.Scale == 0 {
		a.Scale = 1 / math.Sqrt(float64(s.Each))
	}
	return a, s
}

// Attention adds scaled dot-product attention: for each head, the softmax of queries
// times keys over all keys, times the values. The scores are never in memory as a whole.
// out has the shape of q. sums is the logarithm of the sum of the exponentials of each
// query's scores, [batch, heads, length], float32, or float64 for such operands: what
// [Graph.AttentionBackward] wants of this operation beside out.
//
// k and v have the batch and the head size of q, and a length of their own. They may have
// fewer heads, of which neighbouring heads of q share one. Numbers of 16 bits are added
// up in float32; weights are rounded to the type before they meet the values, as in a
// product of matrices.
func (g *Graph) Attention(q, k, v Value, a AttentionOptions) (out, sums Value, err error) {
	in := []Value{q, k, v}
	s, err := g.checkAttention(Attention, a, in)
	if err != nil {
		return Value{}, Value{}, err
	}
	n := g.Append(Attention, &a, []Shape{q.Shape(), s.sums(q.Shape().Type)}, in...)
	return n.Value(0), n.Value(1), nil
}

// AttentionBackward adds the gradients of an [Graph.Attention] with regard to its
// operands, given those and its results, and the gradient with regard to out. Scores are
// computed again. Results repeat bit by bit.
func (g *Graph) AttentionBackward(q, k, v, out, sums, dout Value, a AttentionOptions) (dq, dk, dv Value, err error) {
	in := []Value{q, k, v, out, sums, dout}
	s, err := g.checkAttention(AttentionBackward, a, in)
	if err != nil {
		return Value{}, Value{}, Value{}, err
	}
	switch want := s.sums(q.Shape().Type); {
	case !out.Shape().Equal(q.Shape()) || !dout.Shape().Equal(q.Shape()):
		return Value{}, Value{}, Value{}, bad(AttentionBackward, in, "result and gradient have the shape of the queries")
	case !sums.Shape().Equal(want):
		return Value{}, Value{}, Value{}, bad(AttentionBackward, in, "the sums are %v", want)
	}
	n := g.Append(AttentionBackward, &a, []Shape{q.Shape(), k.Shape(), v.Shape()}, in...)
	return n.Value(0), n.Value(1), n.Value(2), nil
}

// sums is the shape of what is kept of each query.
func (s AttentionSizes) sums(t dtype.DType) Shape {
	if t != dtype.F64 {
		t = dtype.F32
	}
	return MakeShape(t, s.Batch, s.Heads, s.Queries)
}

func (g *Graph) checkAttention(op Op, a AttentionOptions, in []Value) (AttentionSizes, error) {
	if err := g.check(op, in...); err != nil {
		return AttentionSizes{}, err
	}
	q, k, v := in[0].Shape(), in[1].Shape(), in[2].Shape()
	switch {
	case q.Rank() != 4 || k.Rank() != 4:
		return AttentionSizes{}, bad(op, in, "queries, keys and values have four axes")
	case !k.Equal(v):
		return AttentionSizes{}, bad(op, in, "keys and values have different shapes")
	case q.Type != k.Type || q.Dims[0] != k.Dims[0] || q.Dims[3] != k.Dims[3]:
		return AttentionSizes{}, bad(op, in, "queries and keys differ in type, batch or elements of a head")
	case math.IsNaN(a.Scale) || math.IsInf(a.Scale, 0):
		return AttentionSizes{}, bad(op, in, "a scale of %v", a.Scale)
	}
	s := a.sizes(q, k)
	switch {
	case s.KeyHeads == 0 && s.Heads > 0 || s.KeyHeads > 0 && s.Heads%s.KeyHeads != 0:
		return AttentionSizes{}, bad(op, in, "%d heads cannot share %d of the keys", s.Heads, s.KeyHeads)
	case s.Each == 0 || s.Keys == 0 && q.Size() > 0:
		return AttentionSizes{}, bad(op, in, "there are no elements or no keys to attend to")
	}
	return s, nil
}

// products is how many multiplications of an attention's matrices there are: two
// products forward, five backward.
func (s AttentionSizes) products(op Op, causal bool) float64 {
	n := 2 * float64(s.Batch*s.Heads) * float64(s.Queries) * float64(s.Keys) * float64(s.Each)
	if op == AttentionBackward {
		n *= 2.5
	}
	if causal {
		n /= 2
	}
	return n
}
