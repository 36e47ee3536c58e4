package cudnn

import (
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// Attention is scaled dot-product attention, or its gradients: for each head, the softmax
// of Scale times queries times keys, times the values. Keys and values may have fewer
// heads, each of which Heads/KeyHeads neighbouring heads of the queries share.
//
// The operands of [Library.Run] are queries, keys, values, result and sums; backward also
// the result's gradient, and the gradients of queries, keys and values. Forward writes
// result and sums, backward the last three. Sums are the natural logarithms of the sums of
// each query's exponentials, [batch, heads, queries], float32: those of other kernels that
// have the same definition do as well.
//
// The graphs are those that NVIDIA's cudnn-frontend makes (MIT, version 1.23, node
// scaled_dot_product_flash_attention.h), which engines recognise as a whole. The one
// backward is what it makes for a deterministic algorithm on compute capability 9.0:
// gradients of scores are in workspace, and nothing is added up by atomics.
type Attention struct {
	Backward bool
	Type     dtype.DType // of all but sums: float16 or bfloat16

	Batch, Heads, KeyHeads, Queries, Keys, Each int

	HeadsBehind bool // arrays are [batch, length, heads, each], and not [batch, heads, length, each]
	Causal      bool // a query sees keys up to its own place, counted from the first
	Sums        bool // forward: sums are written; otherwise they have no place
	Scale       float32
}

// Check implements [Problem].
func (a Attention) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", device.ErrArgument, fmt.Sprintf(format, args...))
	}
	switch {
	case a.Type != dtype.F16 && a.Type != dtype.BF16:
		return bad("an attention of %v", a.Type)
	case min(a.Batch, a.Heads, a.KeyHeads, a.Queries, a.Keys, a.Each) < 1:
		return bad("an attention without elements: %+v", a)
	case a.Heads%a.KeyHeads != 0:
		return bad("%d heads cannot share %d of the keys", a.Heads, a.KeyHeads)
	case math.IsNaN(float64(a.Scale)) || math.IsInf(float64(a.Scale), 0):
		return bad("a scale of %v", a.Scale)
	}
	return nil
}

func (a Attention) what() string {
	if a.Backward {
		return fmt.Sprintf("attention gradient of %v", a.Type)
	}
	return fmt.Sprintf("attention of %v", a.Type)
}

// supported implements [Problem], with what the frontend refuses.
func (a Attention) supported(version int, arch [2]int) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", device.ErrNotSupported, a.what(), fmt.Sprintf(format, args...))
	}
	switch {
	case arch[0] < 8:
		return refuse("compute capability %d.%d, at least 8.0 is needed", arch[0], arch[1])
	case a.Backward && arch[0] != 9:
		return refuse("compute capability %d.%d, only with 9.0 the results are known to repeat", arch[0], arch[1])
	case version == 91000 || version == 91001:
		return refuse("cuDNN %s computes it wrongly", dl.VersionText(version))
	case a.Each%8 != 0 || a.Each > 256:
		return refuse("%d elements in a head, which has a multiple of 8, at most 256", a.Each)
	case a.Queries == 1:
		return refuse("a single query")
	case a.Backward && version <= 91500 && a.Keys%128 != 0:
		return refuse("%d keys, which cuDNN %s takes in multiples of 128", a.Keys, dl.VersionText(version))
	}
	return nil
}

// suits implements [Problem].
func (a Attention) suits(notes []int32) bool {
	for _, note := range notes {
		if note == noteNondeterministic {
			return false
		}
	}
	return true
}

// Unique numbers of an attention's tensors.
const (
	queriesID = 1 + iota
	keysID
	valuesID
	outID
	sumsID
	doutID
	dqueriesID
	dkeysID
	dvaluesID
	scaleID
	maskedID
	oneID
	productsID
)

// memory implements [Problem].
func (a Attention) memory(version int) memory {
	rows := int64(a.Batch) * int64(a.Heads) * int64(a.Queries)
	width := int64(a.Type.Size()) * int64(a.Each)
	q, k := rows*width, int64(a.Batch)*int64(a.KeyHeads)*int64(a.Keys)*width
	m := memory{
		operands: []operand{{queriesID, "queries", q}, {keysID, "keys", k}, {valuesID, "values", k}, {outID, "result", q}, {sumsID, "sums", 4 * rows}},
		numbers:  []number{{scaleID, a.Scale}},
	}
	if a.Causal {
		masked := float32(math.Inf(-1))
		if version < 91000 {
			masked = -math.MaxFloat32
		}
		m.numbers = append(m.numbers, number{maskedID, masked})
	}
	if a.Backward {
		m.operands = append(m.operands, operand{doutID, "gradient of the result", q},
			operand{dqueriesID, "gradient of queries", q}, operand{dkeysID, "gradient of keys", k}, operand{dvaluesID, "gradient of values", k})
		m.between = []operand{{productsID, "products", 4 * rows}}
		m.numbers = append(m.numbers, number{oneID, 1})
	} else if !a.Sums {
		m.operands[4] = operand{name: "sums"} // which are nowhere
	}
	return m
}

// part implements [Problem]: the next smaller batch that divides this one, and whose
// arrays lie where they have to.
func (a Attention) part() (Problem, int) {
	for n := a.Batch / 2; n > 0; n-- {
		if a.Batch%n == 0 && n*a.Heads*a.Queries*4%alignment == 0 {
			parts := a.Batch / n
			a.Batch = n
			return a, parts
		}
	}
	return nil, 1
}

// attending makes the graph of an attention.
type attending struct {
	network
	Attention
	scores, rows         [4]int64 // dimensions
	scoreSteps, rowSteps [4]int64 // strides
	scale, mask          descriptor
}

// lying is the dimensions and strides of an array with so many heads and so many rows in
// each; flipped is each head with rows as columns.
func (a *attending) lying(heads, length int, flipped bool) (dims, strides []int64) {
	h, n, each := int64(heads), int64(length), int64(a.Each)
	dims, strides = []int64{int64(a.Batch), h, n, each}, []int64{h * n * each, n * each, each, 1}
	if a.HeadsBehind {
		strides[1], strides[2] = each, h*each
	}
	if flipped {
		dims[2], dims[3] = dims[3], dims[2]
		strides[2], strides[3] = strides[3], strides[2]
	}
	return dims, strides
}

// array makes a tensor in memory.
func (a *attending) array(id int64, heads, length int, flipped bool) descriptor {
	dims, strides := a.lying(heads, length, flipped)
	return a.tensor(tensor{id: id, kind: dataType(a.Type), dims: dims, strides: strides})
}

// perQuery makes a tensor of one float32 for each query, in memory.
func (a *attending) perQuery(id int64) descriptor {
	return a.tensor(tensor{id: id, kind: dataFloat, dims: a.rows[:], strides: a.rowSteps[:]})
}

// score makes a tensor with a number for each score, row one with a number for each query.
func (a *attending) score() descriptor {
	return a.value(dataFloat, a.scores[:], a.scoreSteps[:])
}
func (a *attending) row() descriptor { return a.value(dataFloat, a.rows[:], a.rowSteps[:]) }

// on adds an operation on one or two tensors, with y as its result, and returns that.
func (a *attending) on(mode int32, x, b, y descriptor) descriptor {
	a.pointwise(pointwise{mode: mode, x: x, b: b, y: y})
	return y
}

// seen has scores that the query does not see be very small.
func (a *attending) seen(s descriptor) descriptor {
	if !a.Causal {
		return s
	}
	like := func(kind int32) descriptor { return a.value(kind, a.scores[:], a.scoreSteps[:]) }
	row, column, sees, y := like(dataInt32), like(dataInt32), like(dataBoolean), a.score()
	a.pointwise(pointwise{mode: pointwiseGenIndex, axis: 2, x: s, y: row})
	a.pointwise(pointwise{mode: pointwiseGenIndex, axis: 3, x: s, y: column})
	a.pointwise(pointwise{mode: pointwiseAtLeast, precision: dataBoolean, x: row, b: column, y: sees})
	a.pointwise(pointwise{mode: pointwiseSelect, x: s, b: a.mask, t: sees, y: y})
	return y
}

// graph implements [Problem].
func (a Attention) graph(b *builder, handle uintptr) descriptor {
	h, n, m := int64(a.Heads), int64(a.Queries), int64(a.Keys)
	g := &attending{network: network{builder: b}, Attention: a,
		scores: [4]int64{int64(a.Batch), h, n, m}, scoreSteps: [4]int64{h * n * m, n * m, m, 1},
		rows: [4]int64{int64(a.Batch), h, n, 1}, rowSteps: [4]int64{h * n, n, 1, 1}}
	g.scale = g.number(scaleID)
	if a.Causal {
		g.mask = g.number(maskedID)
	}
	if a.Backward {
		g.backward()
	} else {
		g.forward()
	}
	return b.graph(handle, g.operations...)
}

func (a *attending) forward() {
	q, kt, v := a.array(queriesID, a.Heads, a.Queries, false), a.array(keysID, a.KeyHeads, a.Keys, true), a.array(valuesID, a.KeyHeads, a.Keys, false)
	s := a.score()
	a.multiply(q, kt, s)
	s = a.seen(a.on(pointwiseMul, s, a.scale, a.score()))
	largest, total := a.row(), a.row()
	a.reduce(reduceMax, s, largest)
	e := a.on(pointwiseExp, a.on(pointwiseSub, s, largest, a.score()), 0, a.score())
	a.reduce(reduceAdd, e, total)
	if a.Sums {
		a.on(pointwiseAdd, largest, a.on(pointwiseLog, total, 0, a.row()), a.perQuery(sumsID))
	}
	p := a.on(pointwiseDiv, e, total, a.value(dataType(a.Type), a.scores[:], a.scoreSteps[:]))
	a.multiply(p, v, a.array(outID, a.Heads, a.Queries, false))
}

func (a *attending) backward() {
	q, kt, vt := a.array(queriesID, a.Heads, a.Queries, false), a.array(keysID, a.KeyHeads, a.Keys, true), a.array(valuesID, a.KeyHeads, a.Keys, true)
	out, dout := a.array(outID, a.Heads, a.Queries, false), a.array(doutID, a.Heads, a.Queries, false)
	kind := dataType(a.Type)

	// Each query's product of its result and the result's gradient.
	h, n, m, each := int64(a.Heads), int64(a.Queries), int64(a.Keys), int64(a.Each)
	own, sum, products := a.value(dataFloat, []int64{int64(a.Batch), h, n, each}, []int64{h * n * each, n * each, h * each, 1}), a.row(), a.perQuery(productsID)
	a.on(pointwiseMul, dout, out, own)
	a.reduce(reduceAdd, own, sum)
	a.on(pointwiseMul, sum, a.number(oneID), products)

	// The weights again.
	s := a.score()
	a.multiply(q, kt, s)
	s = a.on(pointwiseMul, s, a.scale, a.score())
	s = a.on(pointwiseSub, s, a.perQuery(sumsID), a.score())
	p := a.on(pointwiseExp, a.seen(s), 0, a.score())
	flipped := func(x descriptor) descriptor {
		y := a.value(kind, []int64{int64(a.Batch), h, m, n}, []int64{h * n * m, n * m, 1, m})
		a.view(x, y)
		return y
	}
	a.shared(flipped(p), dout, dvaluesID)

	// Gradients of scores.
	d := a.score()
	a.multiply(dout, vt, d)
	d = a.on(pointwiseSub, d, products, a.score())
	d = a.on(pointwiseMul, d, p, a.score())
	d = a.on(pointwiseMul, d, a.scale, a.score())
	a.shared(flipped(d), q, dkeysID)
	dims, strides := a.lying(a.KeyHeads, a.Keys, false)
	k := a.value(dataFloat, dims, strides)
	a.view(kt, k)
	a.multiply(d, k, a.array(dqueriesID, a.Heads, a.Queries, false))
}

// shared has an array of keys be the product of scores and queries, for all heads that
// share them.
func (a *attending) shared(scores, queries descriptor, id int64) {
	y := a.array(id, a.KeyHeads, a.Keys, false)
	if a.KeyHeads == a.Heads {
		a.multiply(scores, queries, y)
		return
	}
	h, m, each := int64(a.Heads), int64(a.Keys), int64(a.Each)
	all := a.value(dataType(a.Type), []int64{int64(a.Batch), h, m, each}, []int64{h * m * each, m * each, each, 1})
	a.multiply(scores, queries, all)
	a.reduce(reduceAdd, all, y)
}
