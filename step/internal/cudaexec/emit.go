package cudaexec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// errNotHere: an operation cannot be computed in the kernel that is tried.
var errNotHere = errors.New("cannot be computed in this kernel")

// mostPointers is how many a kernel takes, as device.MaxArgs allows.
const mostPointers = 32

// index is where an element of a value lies: a place in row-major order, one along each
// axis, or both. They are C expressions without side effects: variables and numbers.
type index struct {
	at   string
	axes []string
}

// kernel is the text of one kernel while it is written. Elements are pulled: pull writes
// what computes one element of a value at an index, by way of the operands' elements,
// down to those that lie in memory.
type kernel struct {
	u        *unit
	wide     bool                 // indexes have 64 bits
	pointers []graph.Value        // whose memory the kernel is given
	apart    map[graph.Value]bool // arrays of which threads read elements that are not theirs
	vars     int
	scope    *scope
	err      error

	// The loop over elements takes several at a time: vector, at these indexes, by the
	// index's variable.
	vector  int
	firsts  map[string]first
	vectors *scope // where vectors are loaded

	// A kernel of rows: reductions of a row that are known, and how others become so.
	rows    int
	row     *scope
	reduced map[graph.Value]string
	reduce  func(graph.Value) string
	aligned map[graph.Value]bool // must be pulled at the loop's own index
	split   map[string]rowColumn

	// A kernel of a product with vectors: whose elements it has when they are wanted, in a
	// variable.
	product graph.Value
	made    string
}

// first is the first of the elements that a thread takes at a time, of so many that the
// index goes over.
type first struct {
	at       string
	elements int
}

// rowColumn is what an index is made of.
type rowColumn struct {
	row, column   string
	rows, columns int
}

// scope is a block of the text, and what is known in it.
type scope struct {
	up     *scope
	text   strings.Builder
	known  map[string]string // an expression's variable
	indent string
}

func (s *scope) find(key string) (string, bool) {
	for ; s != nil; s = s.up {
		if v, ok := s.known[key]; ok {
			return v, true
		}
	}
	return "", false
}

func newScope(up *scope) *scope {
	s := &scope{up: up, known: map[string]string{}, indent: "    "}
	if up != nil {
		s.indent += up.indent
	}
	return s
}

func (k *kernel) push() *scope {
	k.scope = newScope(k.scope)
	return k.scope
}

func (k *kernel) pop() string {
	s := k.scope
	k.scope = s.up
	return s.text.String()
}

func (k *kernel) printf(format string, args ...any) {
	k.scope.text.WriteString(k.scope.indent)
	fmt.Fprintf(&k.scope.text, format, args...)
	k.scope.text.WriteByte('\n')
}

func (k *kernel) fail(format string, args ...any) string {
	if k.err == nil {
		k.err = fmt.Errorf("%w: %s", errNotHere, fmt.Sprintf(format, args...))
	}
	return "0"
}

func (k *kernel) variable() string {
	k.vars++
	return "v" + strconv.Itoa(k.vars)
}

// define writes a variable for an expression, or finds the one that there is.
func (k *kernel) define(ctype, expression string) string {
	if v, ok := k.scope.find("=" + expression); ok {
		return v
	}
	v := k.variable()
	k.printf("const %s %s = %s;", ctype, v, expression)
	k.scope.known["="+expression] = v
	return v
}

func (k *kernel) indexType() string {
	if k.wide {
		return "i64"
	}
	return "i32"
}

// number writes a number as an index.
func (k *kernel) number(n int) string {
	if k.wide && n > 1<<31-1 {
		return strconv.Itoa(n) + "ll"
	}
	return strconv.Itoa(n)
}

// defineIndex is define of an index.
func (k *kernel) defineIndex(format string, args ...any) string {
	return k.define(k.indexType(), fmt.Sprintf(format, args...))
}

func axesKey(axes []string, dims []int) string {
	var b strings.Builder
	for i, d := range dims {
		if d != 1 {
			fmt.Fprintf(&b, "%s/%d,", axes[i], d)
		}
	}
	return b.String()
}

// place returns an index in row-major order.
func (k *kernel) place(ix index, dims []int) string {
	if size(dims) <= 1 {
		return "0"
	}
	if ix.at != "" {
		return ix.at
	}
	key := axesKey(ix.axes, dims)
	if at, ok := k.scope.find("#" + key); ok {
		return at
	}
	expression, terms := "", 0
	for i, d := range dims {
		if d == 1 {
			continue
		}
		switch {
		case terms == 0 || expression == "0":
			expression = ix.axes[i]
		case ix.axes[i] == "0":
			expression = fmt.Sprintf("(%s) * %s", expression, k.number(d))
		default:
			expression = fmt.Sprintf("(%s) * %s + %s", expression, k.number(d), ix.axes[i])
		}
		terms++
	}
	if terms == 1 {
		return expression
	}
	at := k.defineIndex("%s", expression)
	k.scope.known["#"+key] = at
	return at
}

// along returns the places along each axis.
func (k *kernel) along(ix index, dims []int) []string {
	if ix.axes != nil {
		return ix.axes
	}
	key := fmt.Sprintf("@%s %v", ix.at, dims)
	if list, ok := k.scope.find(key); ok {
		if list == "" {
			return nil
		}
		return strings.Split(list, " ")
	}
	axes := k.cut(ix.at, dims)
	k.scope.known[key] = strings.Join(axes, " ")
	if _, ok := k.scope.find("#" + axesKey(axes, dims)); !ok {
		k.scope.known["#"+axesKey(axes, dims)] = ix.at
	}
	return axes
}

func (k *kernel) cut(at string, dims []int) []string {
	axes := make([]string, len(dims))
	if s, ok := k.split[at]; ok {
		n := 1
		for i := 0; i <= len(dims); i++ {
			if n == s.rows && size(dims[i:]) == s.columns {
				row, column := dims[:i], dims[i:]
				copy(axes, k.along(index{at: s.row}, row))
				copy(axes[i:], k.along(index{at: s.column}, column))
				return axes
			}
			if i < len(dims) {
				n *= dims[i]
			}
		}
	}
	left := 0 // axes that are longer than one
	for _, d := range dims {
		if d != 1 {
			left++
		}
	}
	for i := len(dims) - 1; i >= 0; i-- {
		switch d := dims[i]; {
		case d == 1:
			axes[i] = "0"
		case left == 1:
			axes[i] = at
			left--
		default:
			axes[i] = k.defineIndex("%s %% %s", at, k.number(d))
			if f, ok := k.firsts[at]; ok && d%k.vector == 0 { // elements that lie side by side still do
				k.firsts[axes[i]] = first{fmt.Sprintf("(%s) %% %s", f.at, k.number(d)), d}
			}
			at = k.defineIndex("%s / %s", at, k.number(d))
			left--
		}
	}
	return axes
}

func size(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// pointer is the name of a value's memory among the kernel's parameters.
func (k *kernel) pointer(v graph.Value) string {
	i := slices.Index(k.pointers, v)
	if i < 0 {
		i = len(k.pointers)
		k.pointers = append(k.pointers, v)
		if len(k.pointers) >= mostPointers {
			k.fail("more than %d arrays", mostPointers-1)
		}
	}
	return fmt.Sprintf("p.p[%d]", i)
}

// load is an element of type t that lies in the memory of v.
func (k *kernel) load(v graph.Value, t dtype.DType, at string) string {
	if at != "e" {
		k.apart[v] = true
	}
	// An array with fewer elements than the index goes over, such as one that is padded,
	// is read within a condition: vectors are read outside of it.
	if first, ok := k.firsts[at]; ok && k.vector > 1 && v.Shape().Bytes() >= int64(first.elements*t.Size()) {
		key := fmt.Sprintf("vector %v %v %s", v, t, at)
		name, ok := k.vectors.known[key]
		if !ok {
			name = k.variable()
			kind := fmt.Sprintf("vec<%s, %d>", cudac.Stored(t), k.vector)
			fmt.Fprintf(&k.vectors.text, "%sconst %s %s = *(const %s *)((const %s *)%s + %s);\n", k.vectors.indent, kind, name, kind, cudac.Stored(t), k.pointer(v), first.at)
			k.vectors.known[key] = name
		}
		return k.define(cudac.ComputedIn(t), fmt.Sprintf("ld(%s.a[j])", name))
	}
	return k.define(cudac.ComputedIn(t), fmt.Sprintf("ld(((const %s *)%s)[%s])", cudac.Stored(t), k.pointer(v), at))
}

// pull writes what computes one element, and returns its variable.
func (k *kernel) pull(v graph.Value, ix index) string {
	if k.err != nil {
		return "0"
	}
	s := v.Shape()
	if literal, ok := k.u.Literal(v); ok {
		return literal
	}
	b := k.u.Base(v)
	if k.u.Given[b] {
		return k.load(b, s.Type, k.place(ix, s.Dims))
	}
	if b != v { // the same place in row-major order
		switch t := b.Shape().Type; {
		case t.Size() != s.Type.Size():
			return k.fail("%v", v.Node().Op)
		case t != s.Type:
			x := k.pull(b, index{at: k.place(ix, s.Dims)})
			return k.define(cudac.ComputedIn(s.Type), cudac.Bitcast(t, s.Type, x))
		case slices.Equal(b.Shape().Dims, s.Dims):
			return k.pull(b, ix)
		}
		return k.pull(b, index{at: k.place(ix, s.Dims)})
	}
	if k.row != nil && k.scope != k.row {
		// What is the same for the row is computed once for it, where every row has it.
		if at := k.place(ix, s.Dims); at == "row" && s.Size() >= k.rows || at == "0" && s.Size() > 0 {
			scope := k.scope
			k.scope = k.row
			x := k.pull(v, index{at: at})
			k.scope = scope
			return x
		}
	}
	if v == k.product {
		if k.made == "" || k.place(ix, s.Dims) != "e" && s.Size() > 1 {
			return k.fail("an element of another thread")
		}
		return k.made
	}
	isReduction := v.Node().Op.Class() == graph.Reduction && !access.Same(v.Node())
	if k.aligned[v] || isReduction {
		at := k.place(ix, s.Dims)
		if isReduction {
			if k.reduce == nil || at != "row" && s.Size() > 1 {
				return k.fail("%v of another row", v.Node().Op)
			}
			if _, ok := k.reduced[v]; !ok {
				k.reduced[v] = k.reduce(v)
			}
			return k.reduced[v]
		}
		if _, isSplit := k.split[at]; !isSplit && at != "row" && at != "e" && s.Size() > 1 {
			return k.fail("an element of another thread")
		}
	}
	key := ""
	if ix.at != "" || size(s.Dims) <= 1 {
		key = fmt.Sprintf("%v @%s", v, k.place(ix, s.Dims))
	} else {
		key = fmt.Sprintf("%v #%s", v, axesKey(ix.axes, s.Dims))
	}
	if x, ok := k.scope.find(key); ok {
		return x
	}
	x := k.compute(v, ix)
	k.scope.known[key] = x
	return x
}

// operandIndex is where an element-wise operand has the element for one of the result.
func operandIndex(k *kernel, ix index, out, in []int) index {
	if slices.Equal(out, in) {
		return ix
	}
	if len(in) == 0 {
		return index{at: "0"}
	}
	axes := slices.Clone(k.along(ix, out))
	for i, d := range in {
		if d == 1 {
			axes[i] = "0"
		}
	}
	return index{axes: axes}
}

// compute is pull of what is computed here.
func (k *kernel) compute(v graph.Value, ix index) string {
	n, s := v.Node(), v.Shape()
	t := s.Type
	in := n.Inputs
	if access.Same(n) {
		return k.pull(in[0], index{at: k.place(ix, s.Dims)})
	}
	switch n.Op {
	case graph.Identity:
		return k.pull(in[0], ix)
	case graph.Iota:
		at := k.along(ix, s.Dims)[int(n.Attr.(graph.Axis))]
		return k.define(cudac.ComputedIn(t), cudac.Convert(dtype.I64, t, "(i64)"+at))
	case graph.Transpose:
		out, axes := k.along(ix, s.Dims), make([]string, s.Rank())
		for i, a := range n.Attr.(graph.Axes) {
			axes[a] = out[i]
		}
		return k.pull(in[0], index{axes: axes})
	case graph.BroadcastInDim:
		dims := in[0].Shape().Dims
		if size(dims) <= 1 {
			return k.pull(in[0], index{at: "0"})
		}
		out, axes := k.along(ix, s.Dims), make([]string, len(dims))
		for i, a := range n.Attr.(graph.Axes) {
			axes[i] = out[a]
			if dims[i] == 1 {
				axes[i] = "0"
			}
		}
		return k.pull(in[0], index{axes: axes})
	case graph.Reverse:
		axes := slices.Clone(k.along(ix, s.Dims))
		for _, a := range n.Attr.(graph.Axes) {
			axes[a] = k.defineIndex("%s - %s", k.number(s.Dims[a]-1), axes[a])
		}
		return k.pull(in[0], index{axes: axes})
	case graph.Slice:
		a := n.Attr.(*graph.Slicing)
		axes := slices.Clone(k.along(ix, s.Dims))
		for i := range axes {
			if a.Strides[i] != 1 {
				axes[i] = k.defineIndex("%s * %s", axes[i], k.number(a.Strides[i]))
			}
			if a.Starts[i] != 0 {
				axes[i] = k.defineIndex("%s + %s", axes[i], k.number(a.Starts[i]))
			}
		}
		return k.pull(in[0], index{axes: axes})
	case graph.Pad:
		return k.pad(v, ix)
	case graph.Concatenate:
		return k.concatenate(v, ix)
	case graph.DynamicSlice:
		axes := slices.Clone(k.along(ix, s.Dims))
		for i, d := range in[0].Shape().Dims {
			axes[i] = k.defineIndex("%s + %s", k.start(in[1+i], d-s.Dims[i]), axes[i])
		}
		return k.pull(in[0], index{axes: axes})
	case graph.DynamicUpdateSlice:
		update := in[1].Shape().Dims
		if size(update) == 0 {
			return k.pull(in[0], ix)
		}
		axes := slices.Clone(k.along(ix, s.Dims))
		inside := "1"
		for i, d := range s.Dims {
			axes[i] = k.defineIndex("%s - %s", axes[i], k.start(in[2+i], d-update[i]))
			inside += fmt.Sprintf(" && %s >= 0 && %s < %s", axes[i], axes[i], k.number(update[i]))
		}
		return k.either(inside, t,
			func() string { return k.pull(in[1], index{axes: axes}) },
			func() string { return k.pull(in[0], ix) })
	case graph.Gather:
		return k.gather(v, ix)
	case graph.RNGBitGenerator:
		word := func(i int) string { return k.pull(in[0], index{at: strconv.Itoa(i)}) }
		key, low, high := word(0), word(1), word(2)
		if v.Index() == 0 {
			out := n.Shapes[1]
			counters := (out.Bytes() + 15) / 16
			next := k.define("u64", fmt.Sprintf("%s + %dull", low, counters))
			at := k.place(ix, s.Dims)
			return k.define("u64", fmt.Sprintf("%s == 0 ? %s : %s == 1 ? %s : %s + (%s < %s)", at, key, at, next, high, next, low))
		}
		b := k.define("u64", fmt.Sprintf("random_bits(%s, %s, %s, (u64)%s, %d)", key, low, high, k.place(ix, s.Dims), t.Size()))
		return k.define(cudac.ComputedIn(t), cudac.FromBits(t, b))
	}
	if n.Op.Class() != graph.Elementwise {
		return k.fail("%v", n.Op)
	}
	args := make([]string, len(in))
	for i, x := range in {
		args[i] = k.pull(x, operandIndex(k, ix, s.Dims, x.Shape().Dims))
	}
	if k.err != nil {
		return "0"
	}
	expression, err := cudac.Elementwise(n.Op, in[len(in)-1].Shape().Type, t, args)
	if err != nil {
		k.err = fmt.Errorf("cudaexec: %w", err)
		return "0"
	}
	return k.define(cudac.ComputedIn(t), expression)
}

// start is where a dynamic window begins, moved to between 0 and most.
func (k *kernel) start(v graph.Value, most int) string {
	x := k.pull(v, index{at: "0"})
	return k.defineIndex("%s", clamped(v.Shape().Type, x, most))
}

func clamped(t dtype.DType, x string, most int) string {
	if t == dtype.U64 {
		return fmt.Sprintf("%s > %dull ? %d : (i64)%s", x, most, most, x)
	}
	return fmt.Sprintf("(i64)%s < 0 ? 0 : (i64)%s > %dll ? %dll : (i64)%s", x, x, most, most, x)
}

// either writes a choice of which only one side is computed.
func (k *kernel) either(condition string, t dtype.DType, yes, no func() string) string {
	v := k.variable()
	k.printf("%s %s;", cudac.ComputedIn(t), v)
	side := func(f func() string) string {
		k.push()
		k.printf("%s = %s;", v, f())
		return k.pop()
	}
	k.printf("if (%s) {\n%s%s} else {\n%s%s}", condition, side(yes), k.scope.indent, side(no), k.scope.indent)
	return v
}

func (k *kernel) pad(v graph.Value, ix index) string {
	n := v.Node()
	a, x := n.Attr.(*graph.Padding), n.Inputs[0]
	dims := x.Shape().Dims
	if x.Shape().Size() == 0 {
		return k.pull(n.Inputs[1], index{at: "0"})
	}
	axes := slices.Clone(k.along(ix, v.Shape().Dims))
	inside := "1"
	for i, d := range dims {
		if a.Low[i] == 0 && a.Interior[i] == 0 && a.High[i] == 0 {
			continue
		}
		if a.Low[i] != 0 {
			axes[i] = k.defineIndex("%s - (%s)", axes[i], k.number(a.Low[i]))
		}
		inside += fmt.Sprintf(" && %s >= 0", axes[i])
		if step := a.Interior[i] + 1; step > 1 {
			inside += fmt.Sprintf(" && %s %% %s == 0", axes[i], k.number(step))
			axes[i] = k.defineIndex("%s / %s", axes[i], k.number(step))
		}
		inside += fmt.Sprintf(" && %s < %s", axes[i], k.number(d))
	}
	fill := k.pull(n.Inputs[1], index{at: "0"})
	return k.either(inside, v.Shape().Type,
		func() string { return k.pull(x, index{axes: axes}) },
		func() string { return fill })
}

func (k *kernel) concatenate(v graph.Value, ix index) string {
	n := v.Node()
	axis := int(n.Attr.(graph.Axis))
	axes := k.along(ix, v.Shape().Dims)
	var choose func(from, offset int) string
	choose = func(from, offset int) string {
		x := n.Inputs[from]
		d := x.Shape().Dims[axis]
		take := func() string {
			at := slices.Clone(axes)
			if offset > 0 {
				at[axis] = k.defineIndex("%s - %s", at[axis], k.number(offset))
			}
			return k.pull(x, index{axes: at})
		}
		if from == len(n.Inputs)-1 {
			return take()
		}
		if d == 0 {
			return choose(from+1, offset)
		}
		return k.either(fmt.Sprintf("%s < %s", axes[axis], k.number(offset+d)), v.Shape().Type, take,
			func() string { return choose(from+1, offset+d) })
	}
	return choose(0, 0)
}

// gather pulls an element by way of its slice's indices.
func (k *kernel) gather(v graph.Value, ix index) string {
	n := v.Node()
	a, x, indices := n.Attr.(*graph.GatherAxes), n.Inputs[0], n.Inputs[1]
	out := k.along(ix, v.Shape().Dims)
	var batch, inside []string
	for i, at := range out {
		if slices.Contains(a.Offset, i) {
			inside = append(inside, at)
		} else {
			batch = append(batch, at)
		}
	}
	axes := make([]string, x.Shape().Rank())
	w := 0
	for i := range axes {
		axes[i] = "0"
		if !slices.Contains(a.Collapsed, i) {
			axes[i] = inside[w]
			w++
		}
	}
	for j, axis := range a.StartIndex {
		at := slices.Clone(batch)
		if a.IndexVector < indices.Shape().Rank() {
			at = slices.Insert(at, a.IndexVector, strconv.Itoa(j))
		}
		i := k.pull(indices, index{axes: at})
		start := k.defineIndex("%s", clamped(indices.Shape().Type, i, x.Shape().Dims[axis]-a.Sizes[axis]))
		if axes[axis] == "0" {
			axes[axis] = start
		} else {
			axes[axis] = k.defineIndex("%s + %s", start, axes[axis])
		}
	}
	return k.pull(x, index{axes: axes})
}
