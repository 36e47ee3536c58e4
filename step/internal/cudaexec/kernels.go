package cudaexec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// Threads of a block, in every kernel.
const threads = 256

// mostBlocks bounds grids that stride over their work.
const mostBlocks = 2048

// unit is a task while its kernels are written.
type unit struct {
	views
	task     *step.Task
	launches []launch
}

// compile writes a task's kernels.
func compile(t *step.Task) (*unit, error) {
	u := &unit{views: views{access.Views{Given: map[graph.Value]bool{}}}, task: t}
	for _, v := range t.Inputs {
		u.Given[v] = true
	}
	var outputs []graph.Value
	for _, v := range t.Outputs {
		if v.Shape().Size() > 0 {
			outputs = append(outputs, v)
		}
	}
	if len(outputs) == 0 {
		return u, nil
	}
	s := access.Space{Kind: access.Loop, N: outputs[0].Shape().Size()}
	for _, n := range t.Nodes {
		if n.Op.Class() == graph.View || access.Inlines(n) || n.Op == graph.Constant {
			continue
		}
		switch each := u.spaceOf(n.Value(0)); {
		case n.Op == graph.Transpose && !slices.Contains(t.Outputs, n.Value(0)): // of a factor
		case each.Kind == access.Alone:
			if len(outputs) > 1 || outputs[0].Node() != n {
				return nil, fmt.Errorf("cudaexec: %w: %v is fused with others", ErrUnsupported, n.Op)
			}
			u.launches = u.single(outputs[0])
			for _, l := range u.launches {
				if l.err != nil {
					return nil, l.err
				}
			}
			return u, nil
		case s.Kind != access.Loop && s != each:
			return nil, fmt.Errorf("cudaexec: %w: reductions of %dx%d and %dx%d are fused", ErrUnsupported, s.Rows, s.Columns, each.Rows, each.Columns)
		default:
			s = each
		}
	}
	switch s.Kind {
	case access.Rows:
		return u, u.write(s, outputs)
	case access.Columns:
		return u, u.columns(s, outputs)
	case access.Vectors:
		return u, u.products(outputs)
	}
	// Values of different sizes are made by kernels of their own.
	for len(outputs) > 0 {
		n := outputs[0].Shape().Size()
		var same, others []graph.Value
		for _, v := range outputs {
			if v.Shape().Size() == n {
				same = append(same, v)
			} else {
				others = append(others, v)
			}
		}
		if err := u.write(access.Space{Kind: access.Loop, N: n}, same); err != nil {
			return nil, err
		}
		outputs = others
	}
	return u, nil
}

// kernel begins a kernel that goes over so many elements; it may read arrays with more.
func (u *unit) kernel(elements int) *kernel {
	for _, v := range u.task.Inputs {
		elements = max(elements, v.Shape().Size())
	}
	for _, n := range u.task.Nodes {
		for _, s := range n.Shapes {
			elements = max(elements, s.Size())
		}
	}
	return &kernel{u: u, vector: 1, wide: elements > 1<<31-1-mostBlocks*threads*16, aligned: map[graph.Value]bool{}, apart: map[graph.Value]bool{}}
}

// write writes a kernel of elements or rows: first to see which arrays it takes, then for
// as many elements at a time as suit those.
func (u *unit) write(s access.Space, stores []graph.Value) error {
	along := s.N
	if s.Kind == access.Rows {
		along = s.Columns
	}
	l := launch{name: u.name()}
	try := func(vector int) error {
		k := u.kernel(max(s.N, s.Rows*s.Columns))
		k.vector = vector
		for _, v := range stores {
			k.aligned[v] = true
		}
		if s.Kind == access.Loop {
			k.writeLoop(s.N, stores)
			l.grid = [2]int{gridFor(s.N, vector), 1}
		} else {
			k.writeRows(s.Rows, s.Columns, stores)
			each := threads / u.lanes(s.Rows, s.Columns)
			l.grid = [2]int{min(mostBlocks, (s.Rows+each-1)/each), 1}
		}
		l.apart = k.apart
		l.fill(k)
		return k.err
	}
	if err := try(1); err != nil {
		return err
	}
	vector := l.widest(along)
	if vector > 1 && along/vector >= 32 {
		if err := try(vector); err != nil {
			return err
		}
	}
	u.launches = append(u.launches, l)
	return nil
}

// widest is how many elements of a kernel's arrays, of those that go along so many, a
// thread takes at a time.
func (l *launch) widest(along int) int {
	widest := 1
	for _, v := range l.pointers {
		if v.Shape().Size() >= along {
			widest = max(widest, v.Shape().Type.Size())
		}
	}
	vector := 16 / widest
	for along%vector != 0 {
		vector /= 2
	}
	return vector
}

// elements writes a loop's body over the elements that a thread takes at a time: what
// comes before it, a declaration of indexes, and what body writes; then what comes
// behind.
func (k *kernel) elements(declare string, body func(), behind func()) {
	outer := k.push()
	k.vectors = newScope(outer.up)
	inner := k.push()
	inner.text.WriteString(declare)
	body()
	text := k.pop()
	if k.vector > 1 {
		text = fmt.Sprintf("#pragma unroll\n%sfor (int j = 0; j < %d; j++) {\n%s%s}\n", outer.indent, k.vector, text, outer.indent)
	} else {
		text = fmt.Sprintf("%s{\n%s%s}\n", outer.indent, text, outer.indent)
	}
	outer.text.WriteString(k.vectors.text.String())
	outer.text.WriteString(text)
	if behind != nil {
		behind()
	}
	k.scope = outer.up
	k.scope.text.WriteString(outer.text.String())
}

// storing writes what put computes into memory, at the first index of those that a
// thread takes.
func (k *kernel) storing(values []graph.Value, first, at, declare string, put func(v graph.Value) string) {
	if k.vector == 1 {
		k.elements(declare, func() {
			// All are read before any is written: they may be written over operands.
			all := make([]string, len(values))
			for i, v := range values {
				all[i] = put(v)
			}
			for i, v := range values {
				k.printf("st(((%s *)%s)[%s], %s);", cudac.Stored(v.Shape().Type), k.pointer(v), at, all[i])
			}
		}, nil)
		return
	}
	for i, v := range values {
		k.printf("vec<%s, %d> out%d;", cudac.Stored(v.Shape().Type), k.vector, i)
	}
	k.elements(declare, func() {
		for i, v := range values {
			x := put(v)
			k.printf("st(out%d.a[j], %s);", i, x)
		}
	}, func() {
		for i, v := range values {
			kind := fmt.Sprintf("vec<%s, %d>", cudac.Stored(v.Shape().Type), k.vector)
			k.printf("*(%s *)((%s *)%s + %s) = out%d;", kind, cudac.Stored(v.Shape().Type), k.pointer(v), first, i)
		}
	})
}

// writeLoop writes a kernel of n elements.
func (k *kernel) writeLoop(n int, stores []graph.Value) {
	k.scope = newScope(nil)
	k.row = k.scope
	i := k.indexType()
	k.push() // the loop
	at, declare := "e0", "        const "+i+" e = e0 + j;\n"
	if k.vector == 1 {
		at, declare = "e", ""
	}
	k.firsts = map[string]first{"e": {at, n}}
	if len(stores) == 1 {
		k.passOver(stores[0], at)
	}
	k.storing(stores, at, "e", declare, func(v graph.Value) string { return k.pull(v, index{at: "e"}) })
	body := k.pop()
	k.printf("for (%s %s = ((%s)blockIdx.x * %d + threadIdx.x) * %d; %s < %s; %s += (%s)gridDim.x * %d) {\n%s    }",
		i, at, i, threads, k.vector, at, k.number(n), at, i, threads*k.vector, body)
}

// multiprocessors of a large device; small kernels try to have work for all.
const multiprocessors = 132

// passOver has elements passed over that an update leaves as they are, where it is written
// over the array that it updates: a cache of which one row is new.
func (k *kernel) passOver(v graph.Value, at string) {
	n := v.Node()
	if n.Op != graph.DynamicUpdateSlice {
		return
	}
	x, dims, update := k.u.Base(n.Inputs[0]), v.Shape().Dims, n.Inputs[1].Shape().Dims
	if !k.u.Given[x] || x.Shape().Size() != v.Shape().Size() || size(update) == 0 {
		return
	}
	axes := k.along(index{at: at}, dims)
	if k.vector > 1 {
		axes = axes[:len(axes)-1] // along which elements of a vector differ
		if dims[len(axes)]%k.vector != 0 {
			return
		}
	}
	var outside []string
	for i, a := range axes {
		if update[i] < dims[i] {
			from := k.defineIndex("%s - %s", a, k.start(n.Inputs[2+i], dims[i]-update[i]))
			outside = append(outside, fmt.Sprintf("%s < 0 || %s >= %s", from, from, k.number(update[i])))
		}
	}
	if len(outside) > 0 {
		k.printf("if (%s == %s && (%s)) continue;", k.pointer(v), k.pointer(x), strings.Join(outside, " || "))
	}
}

// fewRows would not be work for all of them if each row had a warp.
const fewRows = multiprocessors * threads / 32

// lanes is how many threads share a row.
func (u *unit) lanes(rows, columns int) int {
	switch {
	case rows < fewRows && columns > 256: // there are multiprocessors with nothing else to do
		return threads
	case columns <= 16:
		return 1
	case columns <= 1024 || columns <= 4096 && rows >= 16384:
		return 32
	}
	return threads
}

// writeRows writes a kernel of rows, whose elements threads share.
func (k *kernel) writeRows(rows, columns int, stores []graph.Value) {
	i := k.indexType()
	n := k.u.lanes(rows, columns)
	outer := newScope(nil)
	k.scope = outer
	k.rows, k.row = rows, k.push()
	k.reduced = map[graph.Value]string{}
	k.split = map[string]rowColumn{"e": {"row", "col", rows, columns}}
	declare := fmt.Sprintf("            const %s col = c0 + j, e = row * %s + col;\n", i, k.number(columns))
	if k.vector == 1 {
		declare = fmt.Sprintf("            const %s col = c0, e = row * %s + col;\n", i, k.number(columns))
	}
	k.firsts = map[string]first{"e": {"row * " + k.number(columns) + " + c0", rows * columns}, "col": {"c0", columns}}
	overColumns := func(body func()) {
		scope := k.scope
		k.scope = k.row
		k.push()
		body()
		text := k.pop()
		k.printf("for (%s c0 = lane * %d; c0 < %s; c0 += %d) {\n%s%s}", i, k.vector, k.number(columns), n*k.vector, text, k.row.indent)
		k.scope = scope
	}
	k.reduce = func(v graph.Value) string {
		node := v.Node()
		x, t := node.Inputs[0], v.Shape().Type
		of, init := reducer(node.Op, t)
		acc := k.variable()
		text := ""
		overColumns(func() {
			vectors, vector := k.vectors, k.vector
			k.elements(declare, func() {
				k.printf("%s = %s::of(%s, %s);", acc, of, acc, k.pull(x, index{at: "e"}))
			}, nil)
			k.vectors, k.vector = vectors, vector
			text = fmt.Sprintf("%s%s %s = %s;\n", k.row.indent, cudac.ComputedIn(t), acc, init)
			k.row.text.WriteString(text)
		})
		scope := k.scope
		k.scope = k.row
		r := k.define(cudac.ComputedIn(t), cudac.Rounded(t, fmt.Sprintf("over_row<%s, %d>(%s)", of, n, acc)))
		k.scope = scope
		return r
	}
	var wholes, ones []graph.Value
	for _, v := range stores {
		if v.Shape().Size() == rows*columns {
			wholes = append(wholes, v)
		} else {
			ones = append(ones, v)
		}
	}
	for _, v := range ones {
		x := k.pull(v, index{at: "row"})
		k.printf("if (lane == 0) st(((%s *)%s)[row], %s);", cudac.Stored(v.Shape().Type), k.pointer(v), x)
	}
	if len(wholes) > 0 {
		overColumns(func() {
			k.storing(wholes, k.firsts["e"].at, "e", declare, func(v graph.Value) string { return k.pull(v, index{at: "e"}) })
		})
	}
	body := k.pop()
	k.printf("const %s lane = threadIdx.x %% %d;", i, n)
	k.printf("for (%s row = (%s)blockIdx.x * %d + threadIdx.x / %d; row < %s; row += (%s)gridDim.x * %d) {\n%s    }",
		i, i, threads/n, n, k.number(rows), i, threads/n, body)
	k.scope = outer
}

// reducer is how a reduction brings two elements together, and what it begins with.
func reducer(op graph.Op, t dtype.DType) (of, init string) {
	c := cudac.ComputedIn(t)
	extreme := func(sign, integer string) string {
		switch {
		case c == "f64":
			return fmt.Sprintf("of_bits((u64)0x%s)", map[string]string{"-": "fff0000000000000ull", "+": "7ff0000000000000ull"}[sign])
		case c == "f32":
			return fmt.Sprintf("of_bits((u32)0x%s)", map[string]string{"-": "ff800000u", "+": "7f800000u"}[sign])
		case c == "bool":
			return map[string]string{"-": "false", "+": "true"}[sign]
		}
		return fmt.Sprintf("%s<%s>()", integer, c)
	}
	switch op {
	case graph.ReduceSum:
		return "sum", "0"
	case graph.ReduceProduct:
		return "product", "1"
	case graph.ReduceMax:
		return "maximum", extreme("-", "least")
	case graph.ReduceMin:
		return "minimum", extreme("+", "most")
	case graph.ReduceAnd:
		if c == "bool" {
			return "conjunction", "true"
		}
		return "conjunction", "(" + c + ")~0ull"
	case graph.ReduceOr:
		return "disjunction", "0"
	case graph.ReduceXor:
		return "exclusion", "0"
	case graph.ArgMax:
		return "first_largest", ""
	case graph.ArgMin:
		return "first_smallest", ""
	}
	return "", ""
}

// reduction is a reduction over any axes: each result by a block, or by a column of
// threads of one, and where there are few results each by several blocks, whose results
// a second kernel brings together.
func (u *unit) reduction(v graph.Value) []launch {
	n := v.Node()
	x, t := n.Inputs[0], v.Shape().Type
	dims := x.Shape().Dims
	arg := n.Op == graph.ArgMax || n.Op == graph.ArgMin
	var axes []int
	if arg {
		axes = []int{int(n.Attr.(graph.Axis))}
	} else {
		axes = n.Attr.(graph.Axes)
	}
	var kept, reduced []int
	inner := false
	for i, d := range dims {
		if slices.Contains(axes, i) {
			reduced = append(reduced, d)
		} else {
			kept = append(kept, d)
		}
		if d != 1 {
			inner = slices.Contains(axes, i)
		}
	}
	outputs, each := size(kept), size(reduced)
	perBlock, wanted := 32, 64
	if inner || outputs == 1 {
		perBlock, wanted = 1, 2048
	}
	blocks := (outputs + perBlock - 1) / perBlock
	splits := max(1, min(512/blocks, (each+wanted-1)/wanted, 256))
	chunk := (each + splits - 1) / max(splits, 1)

	k := u.kernel(max(size(dims), outputs*splits))
	k.scope = newScope(nil)
	k.row = k.scope
	i := k.indexType()
	ct := cudac.ComputedIn(x.Shape().Type)
	acc, init := ct, ""
	of, init := reducer(n.Op, t)
	if arg {
		acc, init = "found<"+ct+">", "{0, -1}"
	}
	k.printf("const %s o = (%s)blockIdx.x * %d + threadIdx.x %% %d;", i, i, perBlock, perBlock)
	k.printf("const %s from = (%s)blockIdx.y * %s, to = smaller(from + %s, (%s)%s);", i, i, k.number(chunk), k.number(chunk), i, k.number(each))
	k.printf("%s a = %s;", acc, init)
	k.push()
	list := make([]string, len(dims))
	ko, kr := k.along(index{at: "o"}, kept), []string(nil)
	k.push()
	kr = k.along(index{at: "r"}, reduced)
	at := index{axes: list}
	for axis, io, ir := 0, 0, 0; axis < len(dims); axis++ {
		if slices.Contains(axes, axis) {
			list[axis] = kr[ir]
			ir++
		} else {
			list[axis] = ko[io]
			io++
		}
	}
	e := k.pull(x, at)
	if arg {
		k.printf("a = %s::of(a, %s{%s, (i64)r});", of, acc, e)
	} else {
		k.printf("a = %s::of(a, %s);", of, e)
	}
	body := k.pop()
	k.printf("for (%s r = from + threadIdx.x / %d; r < to; r += %d) {\n%s        }", i, perBlock, threads/perBlock, body)
	body = k.pop()
	k.printf("if (o < %s) {\n%s    }", k.number(outputs), body)
	k.printf("a = over_block<%s, %d>(a);", of, perBlock)
	finish := func(to, at string) string {
		x := cudac.Rounded(t, "a")
		if arg {
			x = cudac.Convert(dtype.I64, t, "a.at")
		}
		return fmt.Sprintf("st(((%s *)%s)[%s], %s);", cudac.Stored(t), to, at, x)
	}
	condition := fmt.Sprintf("if ((int)threadIdx.x < %d && o < %s) ", perBlock, k.number(outputs))
	first := launch{name: n.Op.String(), grid: [2]int{blocks, splits}}
	if splits == 1 {
		k.printf("%s%s", condition, finish(k.pointer(v), "o"))
		first.fill(k)
		return []launch{first}
	}
	k.printf("%s((%s *)%s)[(%s)blockIdx.y * %s + o] = a;", condition, acc, k.scratchPointer(), i, k.number(outputs))
	first.fill(k)
	first.scratch = int64(outputs) * int64(splits) * 16

	k2 := u.kernel(outputs * splits)
	k2.scope = newScope(nil)
	out := k2.pointer(v)
	k2.printf("const %s o = (%s)blockIdx.x * %d + threadIdx.x %% %d;", i, i, perBlock, perBlock)
	k2.printf("%s a = %s;", acc, init)
	k2.printf("for (%s s = threadIdx.x / %d; s < %d && o < %s; s += %d) a = %s::of(a, ((const %s *)%s)[s * %s + o]);",
		i, perBlock, splits, k.number(outputs), threads/perBlock, of, acc, k2.scratchPointer(), k.number(outputs))
	k2.printf("a = over_block<%s, %d>(a);", of, perBlock)
	k2.printf("%s%s", condition, finish(out, "o"))
	k2.err = k.err
	second := launch{name: n.Op.String() + " of parts", grid: [2]int{blocks, 1}, scratch: first.scratch}
	second.fill(k2)
	return []launch{first, second}
}

// scratchPointer is that of the scratch memory, behind all arrays; call it when those
// are known.
func (k *kernel) scratchPointer() string {
	return "p.p[" + strconv.Itoa(len(k.pointers)) + "]"
}

func gridFor(n, vector int) int {
	return min(mostBlocks, (n+threads*vector-1)/(threads*vector))
}

// launch is a kernel and how it is launched.
type launch struct {
	name     string // for people
	text     string
	pointers []graph.Value
	offsets  map[graph.Value]int64 // in bytes: where in an array the launch begins; nil: at 0
	grid     [2]int
	scratch  int64                // bytes of scratch memory that it is given behind the arrays
	apart    map[graph.Value]bool // arrays of which threads read elements that are not theirs; nil: all
	library  string               // what else the text is written with
	threads  int                  // of a block; 0: as many as usual
	product  bool                 // it is one with vectors
	shared   int                  // bytes of shared memory of each block, beside what the text declares
	err      error
}

func (l *launch) fill(k *kernel) {
	l.text, l.pointers, l.err = k.scope.text.String(), k.pointers, k.err
}

// name is what people call the task.
func (u *unit) name() string {
	var ops []string
	for _, n := range u.task.Nodes {
		ops = append(ops, n.Op.String())
	}
	return strings.Join(ops, "+")
}
