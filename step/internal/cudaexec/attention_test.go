package cudaexec

import (
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// attended is an attention.
type attended struct {
	t                                           dtype.DType
	batch, heads, keyHeads, queries, keys, each int
	step.AttentionOptions
}

func (a attended) String() string {
	return fmt.Sprintf("%v,%dx%d:%d,%d:%d,%d,causal=%t,behind=%t", a.t, a.batch, a.heads, a.keyHeads, a.queries, a.keys, a.each, a.Causal, a.HeadsBehind)
}

func (a attended) shape(heads, length int) []int {
	if a.HeadsBehind {
		return []int{a.batch, length, heads, a.each}
	}
	return []int{a.batch, heads, length, a.each}
}

// normal adds a parameter of normally distributed numbers.
func (b *builder) normal(d dtype.DType, dims ...int) step.Value {
	x := make([]float64, step.MakeShape(d, dims...).Size())
	for i := range x {
		x[i] = b.rng.NormFloat64()
	}
	return b.put(d, x, dims...)
}

// attention adds one, with its gradients.
func (b *builder) attention(a attended) []step.Value {
	b.t.Helper()
	q, dout := b.normal(a.t, a.shape(a.heads, a.queries)...), b.normal(a.t, a.shape(a.heads, a.queries)...)
	k, v := b.normal(a.t, a.shape(a.keyHeads, a.keys)...), b.normal(a.t, a.shape(a.keyHeads, a.keys)...)
	out, sums, err := b.Attention(q, k, v, a.AttentionOptions)
	testkit.OK(b.t, err)
	dq, dk, dv, err := b.AttentionBackward(q, k, v, out, sums, dout, a.AttentionOptions)
	testkit.OK(b.t, err)
	return []step.Value{out, sums, dq, dk, dv}
}

// Results are near those of the host: numbers are rounded once where both are (bf16 has 8
// bits, f16 has 11), and sums of gradients have as many terms as there are queries.
func TestAttention(t *testing.T) {
	e := openTest(t)
	causal, behind := step.AttentionOptions{Causal: true}, step.AttentionOptions{HeadsBehind: true}
	both := step.AttentionOptions{Causal: true, HeadsBehind: true, Scale: 0.2}
	var all checks
	for _, a := range []attended{
		{dtype.BF16, 1, 1, 1, 16, 16, 64, step.AttentionOptions{}},
		{dtype.BF16, 1, 2, 1, 150, 150, 128, causal},
		{dtype.F16, 1, 2, 2, 130, 70, 64, both},
		{dtype.F16, 2, 1, 1, 65, 129, 128, behind},
		{dtype.BF16, 1, 1, 1, 40, 200, 64, causal},
		{dtype.BF16, 1, 1, 1, 200, 40, 64, causal},
		{dtype.F16, 1, 4, 2, 17, 33, 16, both},
		{dtype.BF16, 1, 1, 1, 20, 20, 80, causal},
		{dtype.BF16, 1, 2, 2, 5, 7, 8, behind},
		{dtype.BF16, 1, 1, 1, 9, 10, 12, causal}, // a head of no whole 16 bytes
		{dtype.F16, 1, 1, 1, 7, 9, 136, both},
		{dtype.F32, 1, 4, 2, 33, 33, 40, both},
		{dtype.F64, 2, 1, 1, 9, 20, 3, causal},
		{dtype.F32, 1, 1, 1, 4, 4, 64, step.AttentionOptions{Scale: -1}},
		{dtype.BF16, 1, 1, 1, 4, 4, 64, step.AttentionOptions{Scale: -1}},
	} {
		b := newBuilder(t)
		slack := map[dtype.DType]float64{dtype.F64: 100, dtype.F32: 20, dtype.F16: 8, dtype.BF16: 4}[a.t]
		all.add(a.String(), b.compared(e, slack, b.attention(a)...))
	}
	all.run(t)
}
