package cudaexec

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

//go:embed attention.cuh
var attentionText string

// tiling is how kernels of tensor cores divide an attention.
type tiling struct {
	warps  int // of a block
	groups int // of 16 rows each that a warp has
	tile   int // rows that the block goes over at a time
}

func (t tiling) rows() int { return 16 * t.groups * t.warps }

// tilings are the way forward, and those back to queries and to keys, which have one group
// a warp: it has two accumulators, or two operands, in registers.
var tilings = [3]tiling{{4, 2, 32}, {4, 1, 32}, {4, 1, 32}}

// gathering is how queries gather the stored gradients of scores; queries of a block are a
// multiple of 64, at most 128.
var gathering = tiling{4, 1, 64}

// storedQueries is what stored rows are a multiple of.
const storedQueries = 128

// mostStored is how many bytes of gradients of scores are stored at a time, at most.
var mostStored int64 = 256 << 20

// wide is how many elements of a head tensor cores take.
func wide(each int) int {
	if each <= 64 {
		return 64
	}
	return 128
}

// mostEach is the largest head whose row the lanes of a warp hold.
const mostEach = 1024

// attention writes the kernels of an attention, or returns nil for another task.
func (e *executor) attention(t *step.Task) (*unit, error) {
	var n *graph.Node
	for _, each := range t.Nodes {
		if each.Op.Class() == graph.Compound {
			n = each
		}
	}
	if n == nil {
		return nil, nil
	}
	u := &unit{views: views{Views: access.Views{Given: map[graph.Value]bool{}}}, task: t}
	for _, v := range t.Inputs {
		u.Given[v] = true
	}
	for _, v := range t.Outputs {
		if v.Node() != n {
			return nil, fmt.Errorf("cudaexec: %w: %v is fused with others", ErrUnsupported, n.Op)
		}
	}
	a := &attending{u: u, n: n}
	a.options, a.sizes = graph.AttentionOf(n)
	if a.sizes.Each > mostEach {
		return nil, fmt.Errorf("cudaexec: %w: %d elements in a head, at most %d", ErrUnsupported, a.sizes.Each, mostEach)
	}
	t16 := n.Inputs[0].Shape().Type
	tensor := (t16 == dtype.F16 || t16 == dtype.BF16) && a.sizes.Each%8 == 0 && a.sizes.Each <= 128 && a.options.Scale > 0 && e.arch[0] >= 8
	if n.Op == graph.Attention {
		u.launches = a.forward(tensor)
	} else {
		u.launches = a.stored(tensor && e.attends.stored)
		if u.launches == nil {
			u.launches = a.backward(tensor)
		}
	}
	return u, nil
}

// attending is an attention while its kernels are written.
type attending struct {
	u       *unit
	n       *graph.Node
	options graph.AttentionOptions
	sizes   graph.AttentionSizes
	keep    bool // kernels of keys store gradients of scores
}

// argument is an array that a kernel is given, by the expression of its elements' type;
// 0 for a result that nobody reads.
func (a *attending) argument(l *launch, v graph.Value) string {
	kind := cudac.Stored(v.Shape().Type)
	if v.Node() == a.n {
		if !slices.Contains(a.u.task.Outputs, v) || v.Shape().Size() == 0 {
			return fmt.Sprintf("(%s *)0", kind)
		}
	} else {
		v = a.u.Base(v)
	}
	i := slices.Index(l.pointers, v)
	if i < 0 {
		i = len(l.pointers)
		l.pointers = append(l.pointers, v)
	}
	return fmt.Sprintf("(%s *)p.p[%d]", kind, i)
}

// shape writes what kernels have to know of the operands.
func (a *attending) shape() string {
	s := a.sizes
	where := func(heads, length int) string {
		head, row := length*s.Each, s.Each
		if a.options.HeadsBehind {
			head, row = s.Each, heads*s.Each
		}
		return fmt.Sprintf("{%dLL, %dLL, %dLL}", heads*length*s.Each, head, row)
	}
	q, k := where(s.Heads, s.Queries), where(s.KeyHeads, s.Keys)
	return fmt.Sprintf("    const attention s = {%d, %d, %d, %d, (f32)%s, %s};\n", s.Heads, s.Heads/s.KeyHeads, s.Queries, s.Keys, number64(a.options.Scale),
		strings.Join([]string{q, k, k, q, q, q, k, k}, ", "))
}

// number64 writes a number.
func number64(x float64) string { return fmt.Sprintf("of_bits((u64)0x%xu)", math.Float64bits(x)) }

// launch writes a kernel that calls a function with the arrays. rows are those that the
// kernel divides among its blocks; count is how often there are so many.
func (a *attending) launch(tensor bool, direction int, count, rows int, scratch int64, arrays func(l *launch) []string) launch {
	s := a.sizes
	kind := a.n.Inputs[0].Shape().Type
	function := [...]string{"forward", "queries", "keys"}[direction]
	l := launch{name: a.n.Op.String(), scratch: scratch, library: attentionText}
	list := strings.Join(arrays(&l), ", ")
	if !tensor {
		l.grid = [2]int{min(8*mostBlocks, (rows*count+7)/8), 1}
		l.text = fmt.Sprintf("%s    plain_%s<%s, %s, %d, %t>(s, (%s)%s, %dLL, %s);\n", a.shape(), function, cudac.Stored(kind), cudac.ComputedIn(kind), s.Each, a.options.Causal,
			cudac.ComputedIn(kind), number64(a.options.Scale), rows*count, list)
		return l
	}
	t, d := tilings[direction], wide(s.Each)
	l.threads = 32 * t.warps
	l.grid = [2]int{(rows + t.rows() - 1) / t.rows() * count, 1}
	own, stage, divided := 0, 2*t.tile*d*2, fmt.Sprint(t.warps, ", ", t.tile)
	switch direction {
	case 0:
		divided = fmt.Sprint(t.warps, ", ", t.groups, ", ", t.tile)
		if t.groups > 1 {
			own = t.rows() * d * 2
		}
	case 2:
		own, stage = 2*t.rows()*d*2, stage+max(8*t.tile, 256)
		divided += fmt.Sprintf(", %t", a.keep)
	}
	l.shared = own + 2*stage
	l.text = fmt.Sprintf("%s    attention_%s<%s, %d, %d, %s, %t>(s, %s);\n", a.shape(), function, cudac.Stored(kind), d, s.Each, divided, a.options.Causal, list)
	return l
}

func (a *attending) forward(tensor bool) []launch {
	if a.n.Shapes[0].Size() == 0 {
		return nil
	}
	in := a.n.Inputs
	return []launch{a.launch(tensor, 0, a.sizes.Batch*a.sizes.Heads, a.sizes.Queries, 0, func(l *launch) []string {
		return []string{a.argument(l, in[0]), a.argument(l, in[1]), a.argument(l, in[2]), a.argument(l, a.n.Value(0)), a.argument(l, a.n.Value(1))}
	})}
}

// backward has two kernels: the first goes over queries, and leaves for each the product
// of its result and its gradient for the second, which goes over keys.
func (a *attending) backward(tensor bool) []launch {
	s, in := a.sizes, a.n.Inputs
	if a.n.Shapes[0].Size() == 0 {
		return nil
	}
	sums := in[4].Shape()
	delta := func(l *launch) string { return fmt.Sprintf("(%s *)p.p[%d]", cudac.Stored(sums.Type), len(l.pointers)) }
	launches := []launch{a.launch(tensor, 1, s.Batch*s.Heads, s.Queries, sums.Bytes(), func(l *launch) []string {
		list := []string{a.argument(l, in[0]), a.argument(l, in[1]), a.argument(l, in[2]), a.argument(l, in[3]), a.argument(l, in[4]), a.argument(l, in[5]), a.argument(l, a.n.Value(0))}
		return append(list, delta(l))
	})}
	if slices.Contains(a.u.task.Outputs, a.n.Value(1)) || slices.Contains(a.u.task.Outputs, a.n.Value(2)) {
		launches = append(launches, a.launch(tensor, 2, s.Batch*s.KeyHeads, s.Keys, sums.Bytes(), func(l *launch) []string {
			list := []string{a.argument(l, in[0]), a.argument(l, in[1]), a.argument(l, in[2]), a.argument(l, in[4]), a.argument(l, in[5])}
			dk, dv := a.argument(l, a.n.Value(1)), a.argument(l, a.n.Value(2))
			list = append(list, delta(l), dk, dv)
			if tensor {
				list = append(list, a.none(), "0")
			}
			return list
		}))
	}
	return launches
}

// none is an array that is not there.
func (a *attending) none() string {
	return fmt.Sprintf("(%s *)0", cudac.Stored(a.n.Inputs[0].Shape().Type))
}

// stored is the way back with five products, where [attending.backward] computes scores
// and their gradients twice: the kernel that goes over keys leaves the gradients of scores
// in scratch memory, and another one multiplies them by the keys. That takes as much
// memory as the scores have, 16 bits each, so the batch goes in parts. nil: it is not to
// be, or there is nothing to gain.
func (a *attending) stored(tensor bool) []launch {
	s, in := a.sizes, a.n.Inputs
	if !tensor || a.n.Shapes[0].Size() == 0 || !slices.Contains(a.u.task.Outputs, a.n.Value(0)) {
		return nil
	}
	padded := (s.Queries + storedQueries - 1) / storedQueries * storedQueries
	part := s.Batch // at a time
	bytes := func() int64 { return int64(part) * int64(s.Heads) * int64(s.Keys) * int64(padded) * 2 }
	for part > 1 && (bytes() > mostStored || s.Batch%part != 0) {
		part--
	}
	if bytes() > mostStored {
		return nil
	}
	sums := in[4].Shape()
	products := aligned(int64(part) * sums.Bytes() / int64(s.Batch))
	scratch := products + bytes()
	delta := func(l *launch) string { return fmt.Sprintf("(%s *)p.p[%d]", cudac.Stored(sums.Type), len(l.pointers)) }
	kept := func(l *launch) string {
		return fmt.Sprintf("(%s *)((u8 *)p.p[%d] + %dLL)", cudac.Stored(in[0].Shape().Type), len(l.pointers), products)
	}
	a.keep = true
	var launches []launch
	for first := 0; first < s.Batch; first += part {
		own := []launch{
			a.products(part, scratch, delta),
			a.launch(true, 2, part*s.KeyHeads, s.Keys, scratch, func(l *launch) []string {
				list := []string{a.argument(l, in[0]), a.argument(l, in[1]), a.argument(l, in[2]), a.argument(l, in[4]), a.argument(l, in[5])}
				dk, dv := a.argument(l, a.n.Value(1)), a.argument(l, a.n.Value(2))
				return append(list, delta(l), dk, dv, kept(l), fmt.Sprint(padded))
			}),
			a.gather(part, padded, scratch, kept),
		}
		for i := range own {
			own[i].offsets = map[graph.Value]int64{}
			for _, v := range own[i].pointers {
				own[i].offsets[v] = v.Shape().Bytes() / int64(s.Batch) * int64(first)
			}
		}
		launches = append(launches, own...)
	}
	return launches
}

// products writes the kernel of each query's product of its result and its gradient.
func (a *attending) products(batch int, scratch int64, delta func(*launch) string) launch {
	s, in := a.sizes, a.n.Inputs
	l := launch{name: a.n.Op.String(), scratch: scratch, library: attentionText}
	out, dout := a.argument(&l, in[3]), a.argument(&l, in[5])
	rows := batch * s.Heads * s.Queries
	l.grid = [2]int{min(8*mostBlocks, (rows+7)/8), 1}
	l.text = fmt.Sprintf("%s    attention_products<%s, %d>(s, %dLL, %s, %s, %s);\n", a.shape(), cudac.Stored(in[0].Shape().Type), s.Each, rows, out, dout, delta(&l))
	return l
}

// gather writes the kernel of the gradients of queries, of those of scores.
func (a *attending) gather(batch, padded int, scratch int64, kept func(*launch) string) launch {
	s, in, t, d := a.sizes, a.n.Inputs, gathering, wide(a.sizes.Each)
	l := launch{name: a.n.Op.String(), scratch: scratch, library: attentionText, threads: 32 * t.warps}
	k, dq := a.argument(&l, in[1]), a.argument(&l, a.n.Value(0))
	l.grid = [2]int{(s.Queries + t.rows() - 1) / t.rows() * batch * s.Heads, 1}
	l.shared = 2 * t.tile * (t.rows() + d) * 2
	l.text = fmt.Sprintf("%s    attention_gather<%s, %d, %d, %d, %d, %d, %t>(s, %s, %s, %d, %s);\n", a.shape(), cudac.Stored(in[0].Shape().Type), d, s.Each, t.warps, t.groups, t.tile, a.options.Causal,
		k, kept(&l), padded, dq)
	return l
}
