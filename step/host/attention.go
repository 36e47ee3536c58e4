package host

import (
	"math"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

func init() {
	provide(attention, graph.Attention, graph.AttentionBackward)
}

func attention(n *graph.Node) (function, error) {
	if n.Inputs[0].Shape().Type == dtype.F64 {
		return attending[float64](n), nil
	}
	return attending[float32](n), nil
}

// Rows of queries, and of keys, that are computed together.
const (
	queryBlock = 32
	keyBlock   = 64
)

// heads are the operands of an attention that is computed in numbers of type C.
type heads[C floating] struct {
	graph.AttentionSizes
	causal                 bool
	scale                  C
	perKey                 int    // heads that share one of the keys
	queries                rowsOf // and of what has their shape
	keys                   rowsOf
	queryBlocks, keyBlocks int
	in                     [][]byte
	read, readSum          func(b []byte, i int) C
	write                  func(b []byte, i int, v C)
	round                  func(x []C) // to the operands' type
}

// rowsOf is where rows of a head's elements lie.
type rowsOf struct{ batch, head, row int }

func (r rowsOf) at(batch, head, row int) int { return batch*r.batch + head*r.head + row*r.row }

func rowsAt(heads, length, each int, headsBehind bool) rowsOf {
	r := rowsOf{batch: heads * length * each, head: length * each, row: each}
	if headsBehind {
		r.head, r.row = each, heads*each
	}
	return r
}

// attending is both directions: the softmax goes over blocks of keys with the largest
// score so far, as in Milakov and Gimelshein, "Online normalizer calculation for softmax"
// (2018), and the gradients compute scores again, as in Dao, "FlashAttention-2" (2023).
func attending[C floating](n *graph.Node) function {
	a, s := graph.AttentionOf(n)
	t := n.Inputs[0].Shape().Type
	h := heads[C]{
		AttentionSizes: s, causal: a.Causal, scale: C(a.Scale),
		queries: rowsAt(s.Heads, s.Queries, s.Each, a.HeadsBehind),
		keys:    rowsAt(s.KeyHeads, s.Keys, s.Each, a.HeadsBehind),
		round:   func([]C) {}, perKey: s.Heads / max(s.KeyHeads, 1),
		queryBlocks: (s.Queries + queryBlock - 1) / queryBlock, keyBlocks: (s.Keys + keyBlock - 1) / keyBlock,
		read: floatReader[C](t), write: floatWriter[C](t),
	}
	sumType := dtype.F32
	if t == dtype.F64 {
		sumType = dtype.F64
	}
	h.readSum = floatReader[C](sumType)
	if half(t) {
		h.round = func(x []C) {
			for i, v := range x {
				x[i] = C(roundOne(t, float64(v)))
			}
		}
	}
	if n.Op == graph.Attention {
		writeSum := floatWriter[C](sumType)
		return func(in, out [][]byte) {
			h := h
			h.in = in
			h.over(s.Heads*h.queryBlocks, func(job int) { h.forward(job, out, writeSum) })
		}
	}
	return func(in, out [][]byte) {
		h := h
		h.in = in
		h.over(s.Heads*h.queryBlocks, func(job int) { h.backwardQueries(job, out[0]) })
		h.over(s.KeyHeads*h.keyBlocks, func(job int) { h.backwardKeys(job, out[1], out[2]) })
	}
}

func (h *heads[C]) over(perBatch int, f func(job int)) {
	parallel(h.Batch*perBatch, 1, func(from, to int) {
		for job := from; job < to; job++ {
			f(job)
		}
	})
}

// Operands of both directions.
const inQueries, inKeys, inValues, inOut, inSums, inDout = 0, 1, 2, 3, 4, 5

// load reads rows of a head.
func (h *heads[C]) load(operand int, rows rowsOf, batch, head, first, count int) []C {
	x := make([]C, count*h.Each)
	for r := range count {
		at := rows.at(batch, head, first+r)
		for d := range h.Each {
			x[r*h.Each+d] = h.read(h.in[operand], at+d)
		}
	}
	return x
}

func (h *heads[C]) store(b []byte, rows rowsOf, batch, head, first int, x []C) {
	for r := range len(x) / h.Each {
		at := rows.at(batch, head, first+r)
		for d := range h.Each {
			h.write(b, at+d, x[r*h.Each+d])
		}
	}
}

// seen is how many of the keys a query attends to.
func (h *heads[C]) seen(query int) int {
	if h.causal {
		return min(query+1, h.Keys)
	}
	return h.Keys
}

func dotOf[C floating](x, y []C) (sum C) {
	for i, v := range x {
		sum += v * y[i]
	}
	return sum
}

// addScaled adds a multiple of y to x.
func addScaled[C floating](x []C, a C, y []C) {
	for i, v := range y {
		x[i] += a * v
	}
}

func exp[C floating](x C) C { return C(math.Exp(float64(x))) }

func (h *heads[C]) forward(job int, out [][]byte, writeSum func(b []byte, i int, v C)) {
	block, head, batch := job%h.queryBlocks, job/h.queryBlocks%h.Heads, job/h.queryBlocks/h.Heads
	first := block * queryBlock
	count := min(queryBlock, h.Queries-first)
	q := h.load(inQueries, h.queries, batch, head, first, count)
	acc := make([]C, len(q))
	sums, largest := make([]C, count), make([]C, count)
	for r := range largest {
		largest[r] = lowest[C]()
	}
	scores := make([]C, keyBlock)
	for k0 := 0; k0 < h.seen(first+count-1); k0 += keyBlock {
		keys := min(keyBlock, h.Keys-k0)
		k := h.load(inKeys, h.keys, batch, head/h.perKey, k0, keys)
		v := h.load(inValues, h.keys, batch, head/h.perKey, k0, keys)
		for r := range count {
			n := min(keys, h.seen(first+r)-k0)
			if n <= 0 {
				continue
			}
			p, most := scores[:n], largest[r]
			for j := range p {
				p[j] = dotOf(q[r*h.Each:(r+1)*h.Each], k[j*h.Each:]) * h.scale
				most = larger(most, p[j])
			}
			var from C // what is subtracted; nothing from rows of -Inf alone
			if most != lowest[C]() {
				from = most
			}
			shrink := exp(largest[r] - from)
			sum := sums[r] * shrink
			for j, x := range p {
				p[j] = exp(x - from)
				sum += p[j]
			}
			sums[r], largest[r] = sum, most
			h.round(p)
			o := acc[r*h.Each : (r+1)*h.Each]
			for d := range o {
				o[d] *= shrink
			}
			for j, x := range p {
				addScaled(o, x, v[j*h.Each:(j+1)*h.Each])
			}
		}
	}
	for r := range count {
		o := acc[r*h.Each : (r+1)*h.Each]
		for d := range o {
			o[d] /= sums[r]
		}
		writeSum(out[1], (batch*h.Heads+head)*h.Queries+first+r, largest[r]+C(math.Log(float64(sums[r]))))
	}
	h.store(out[0], h.queries, batch, head, first, acc)
}

// rowsBack are queries of a head, for the way back.
type rowsBack[C floating] struct {
	q, dout, sums, delta []C
}

func (h *heads[C]) rows(batch, head, first, count int) rowsBack[C] {
	b := rowsBack[C]{
		q:    h.load(inQueries, h.queries, batch, head, first, count),
		dout: h.load(inDout, h.queries, batch, head, first, count),
	}
	out := h.load(inOut, h.queries, batch, head, first, count)
	for r := range count {
		b.sums = append(b.sums, h.readSum(h.in[inSums], (batch*h.Heads+head)*h.Queries+first+r))
		b.delta = append(b.delta, dotOf(b.dout[r*h.Each:(r+1)*h.Each], out[r*h.Each:]))
	}
	return b
}

// weights computes how a query weighs keys, and the gradients of its scores.
func (h *heads[C]) weights(b rowsBack[C], r int, k, v, p, ds []C) {
	q, dout := b.q[r*h.Each:(r+1)*h.Each], b.dout[r*h.Each:(r+1)*h.Each]
	for j := range p {
		p[j] = exp(dotOf(q, k[j*h.Each:])*h.scale - b.sums[r])
		ds[j] = p[j] * (dotOf(dout, v[j*h.Each:]) - b.delta[r])
	}
	h.round(p)
	h.round(ds)
}

func (h *heads[C]) backwardQueries(job int, out []byte) {
	block, head, batch := job%h.queryBlocks, job/h.queryBlocks%h.Heads, job/h.queryBlocks/h.Heads
	first := block * queryBlock
	count := min(queryBlock, h.Queries-first)
	b := h.rows(batch, head, first, count)
	dq := make([]C, len(b.q))
	var p, ds [keyBlock]C
	for k0 := 0; k0 < h.seen(first+count-1); k0 += keyBlock {
		keys := min(keyBlock, h.Keys-k0)
		k := h.load(inKeys, h.keys, batch, head/h.perKey, k0, keys)
		v := h.load(inValues, h.keys, batch, head/h.perKey, k0, keys)
		for r := range count {
			n := max(min(keys, h.seen(first+r)-k0), 0)
			h.weights(b, r, k, v, p[:n], ds[:n])
			for j, x := range ds[:n] {
				addScaled(dq[r*h.Each:(r+1)*h.Each], x, k[j*h.Each:(j+1)*h.Each])
			}
		}
	}
	for i := range dq {
		dq[i] *= h.scale
	}
	h.store(out, h.queries, batch, head, first, dq)
}

func (h *heads[C]) backwardKeys(job int, outK, outV []byte) {
	block, shared, batch := job%h.keyBlocks, job/h.keyBlocks%h.KeyHeads, job/h.keyBlocks/h.KeyHeads
	k0 := block * keyBlock
	keys := min(keyBlock, h.Keys-k0)
	k := h.load(inKeys, h.keys, batch, shared, k0, keys)
	v := h.load(inValues, h.keys, batch, shared, k0, keys)
	dk, dv := make([]C, len(k)), make([]C, len(v))
	var p, ds [keyBlock]C
	for head := shared * h.perKey; head < (shared+1)*h.perKey; head++ {
		for first := 0; first < h.Queries; first += queryBlock {
			count := min(queryBlock, h.Queries-first)
			if h.seen(first+count-1) <= k0 {
				continue
			}
			b := h.rows(batch, head, first, count)
			for r := range count {
				n := max(min(keys, h.seen(first+r)-k0), 0)
				h.weights(b, r, k, v, p[:n], ds[:n])
				for j := range n {
					addScaled(dv[j*h.Each:(j+1)*h.Each], p[j], b.dout[r*h.Each:(r+1)*h.Each])
					addScaled(dk[j*h.Each:(j+1)*h.Each], ds[j], b.q[r*h.Each:(r+1)*h.Each])
				}
			}
		}
	}
	for i := range dk {
		dk[i] *= h.scale
	}
	h.store(outK, h.keys, batch, shared, k0, dk)
	h.store(outV, h.keys, batch, shared, k0, dv)
}
