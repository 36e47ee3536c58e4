package cudaexec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// single are the kernels of an operation that has its own.
func (u *unit) single(v graph.Value) []launch {
	n := v.Node()
	switch {
	case n.Op.Class() == graph.Reduction:
		return u.reduction(v)
	case n.Op == graph.Transpose:
		return []launch{u.transposition(v)}
	case n.Op == graph.Concatenate:
		return u.concatenation(v)
	case n.Op.Class() == graph.Scatter:
		return u.scatter(v)
	case n.Op == graph.ConvGeneral && v.Shape().Type.IsFloat():
		return []launch{u.tiledConvolution(v)}
	case n.Op == graph.SelectAndScatterMax, n.Op == graph.SelectAndScatterMin:
		return u.selectAndScatter(v)
	}
	write := map[graph.Op]func(k *kernel, v graph.Value, at []string) string{
		graph.ReduceWindow: window,
		graph.ConvGeneral:  convolution,
		graph.DotGeneral:   product,
	}[n.Op]
	if write == nil {
		return []launch{{err: fmt.Errorf("cudaexec: %w: %v", ErrUnsupported, n.Op)}}
	}
	return []launch{u.each(v, write)}
}

// concatenation is a kernel for each operand.
func (u *unit) concatenation(v graph.Value) (launches []launch) {
	n, offset := v.Node(), 0
	axis := int(n.Attr.(graph.Axis))
	for _, x := range n.Inputs {
		dims := x.Shape().Dims
		if x.Shape().Size() == 0 {
			continue
		}
		k := u.alone(v)
		k.push()
		from := k.pull(x, index{at: "e"})
		axes := slices.Clone(k.along(index{at: "e"}, dims))
		axes[axis] = k.defineIndex("%s + %s", axes[axis], k.number(offset))
		k.printf("st(((%s *)%s)[%s], %s);", cudac.Stored(v.Shape().Type), k.pointer(v), k.place(index{axes: axes}, v.Shape().Dims), from)
		launches = append(launches, k.over(n.Op.String(), x.Shape().Size()))
		offset += dims[axis]
	}
	return launches
}

// each is a kernel in which a thread makes one element of the result.
func (u *unit) each(v graph.Value, write func(k *kernel, v graph.Value, at []string) string) launch {
	k := u.alone(v)
	k.push()
	x := write(k, v, k.along(index{at: "e"}, v.Shape().Dims))
	k.printf("st(((%s *)%s)[e], %s);", cudac.Stored(v.Shape().Type), k.pointer(v), x)
	return k.over(v.Node().Op.String(), v.Shape().Size())
}

// alone begins a kernel that computes a value, which others need in memory.
func (u *unit) alone(v graph.Value) *kernel {
	k := u.kernel(v.Shape().Size())
	k.scope = newScope(nil)
	k.row = k.scope
	return k
}

// over ends a kernel, with what was pushed as the body of a loop over n elements e.
func (k *kernel) over(name string, n int) launch {
	body := k.pop()
	i := k.indexType()
	k.printf("for (%s e = (%s)blockIdx.x * %d + threadIdx.x; e < %s; e += (%s)gridDim.x * %d) {\n%s    }", i, i, threads, k.number(n), i, threads, body)
	l := launch{name: name, grid: [2]int{gridFor(n, 1), 1}}
	l.fill(k)
	return l
}

// loop writes a loop around what body writes, and returns nothing.
func (k *kernel) loop(variable string, n int, body func()) {
	k.push()
	body()
	text := k.pop()
	k.printf("for (%s %s = 0; %s < %s; %s++) {\n%s%s}", k.indexType(), variable, variable, k.number(n), variable, text, k.scope.indent)
}

// loops writes one loop in another.
func (k *kernel) loops(prefix string, dims []int, body func(at []string)) {
	at := make([]string, len(dims))
	var nest func(i int)
	nest = func(i int) {
		if i == len(dims) {
			body(at)
			return
		}
		if dims[i] == 1 {
			at[i] = "0"
			nest(i + 1)
			return
		}
		at[i] = fmt.Sprintf("%s%d", prefix, i)
		k.loop(at[i], dims[i], func() { nest(i + 1) })
	}
	nest(0)
}

// transposition moves the last axis by tiles in shared memory, so that both sides are
// reached in order.
func (u *unit) transposition(v graph.Value) launch {
	n := v.Node()
	x, p := n.Inputs[0], n.Attr.(graph.Axes)
	in, out := x.Shape().Dims, v.Shape().Dims
	t := v.Shape().Type
	last := func(dims []int) int { // the last axis that is longer than one
		for i := len(dims) - 1; i > 0; i-- {
			if dims[i] > 1 {
				return i
			}
		}
		return 0
	}
	across := slices.Index(p, last(in)) // in the result, where the operand's last axis is
	down := last(out)                   // the result's last axis
	k := u.kernel(size(out))
	k.scope = newScope(nil)
	k.row = k.scope
	i := k.indexType()
	var others []int
	for a, d := range out {
		if a != across && a != down {
			others = append(others, d)
		}
	}
	tilesAcross, tilesDown := (out[across]+31)/32, (out[down]+31)/32
	tiles := tilesAcross * tilesDown * size(others)
	k.printf("__shared__ %s tile[32][33];", cudac.Stored(t))
	k.push()
	k.printf("const %s a0 = t %% %d * 32, d0 = t / %d %% %d * 32, o = t / %s;", i, tilesAcross, tilesAcross, tilesDown, k.number(tilesAcross*tilesDown))
	rest := k.along(index{at: "o"}, others)
	axes := func(a, d string) []string {
		list := make([]string, len(out))
		o := 0
		for axis := range out {
			switch axis {
			case across:
				list[axis] = a
			case down:
				list[axis] = d
			default:
				list[axis] = rest[o]
				o++
			}
		}
		return list
	}
	k.push()
	at := axes("a", "d")
	from := make([]string, len(in))
	for i, a := range p {
		from[a] = at[i]
	}
	k.printf("const %s a = a0 + threadIdx.x %% 32, d = d0 + threadIdx.x / 32 + y;", i)
	k.push()
	e := k.pull(x, index{axes: from})
	k.printf("st(tile[threadIdx.x / 32 + y][threadIdx.x %% 32], %s);", e)
	body := k.pop()
	k.printf("if (a < %s && d < %s) {\n%s}", k.number(out[across]), k.number(out[down]), body)
	body = k.pop()
	k.printf("for (int y = 0; y < 32; y += 8) {\n%s}", body)
	k.printf("__syncthreads();")
	k.push()
	k.printf("const %s a = a0 + threadIdx.x / 32 + y, d = d0 + threadIdx.x %% 32;", i)
	k.push()
	to := k.place(index{axes: axes("a", "d")}, out)
	k.printf("((%s *)%s)[%s] = tile[threadIdx.x %% 32][threadIdx.x / 32 + y];", cudac.Stored(t), k.pointer(v), to)
	body = k.pop()
	k.printf("if (a < %s && d < %s) {\n%s}", k.number(out[across]), k.number(out[down]), body)
	body = k.pop()
	k.printf("for (int y = 0; y < 32; y += 8) {\n%s}", body)
	k.printf("__syncthreads();")
	body = k.pop()
	k.printf("for (%s t = blockIdx.x; t < %s; t += gridDim.x) {\n%s}", i, k.number(tiles), body)
	l := launch{name: "Transpose", grid: [2]int{min(8*mostBlocks, tiles), 1}}
	l.fill(k)
	return l
}

// scatter copies the operand, and then brings updates to it. Where no two updates can
// overlap but by having the same indices, the first of those that do makes all of them,
// in their order: blocks look through the indices, and their threads share an update's
// elements. Otherwise each element of the result looks through all updates.
func (u *unit) scatter(v graph.Value) []launch {
	n := v.Node()
	a := n.Attr.(*graph.ScatterAxes)
	x, indices, updates := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	t := v.Shape().Type
	dims, udims, idims := x.Shape().Dims, updates.Shape().Dims, indices.Shape().Dims
	var copied launch
	{
		k := u.alone(v)
		k.push()
		k.printf("st(((%s *)%s)[e], %s);", cudac.Stored(t), k.pointer(v), k.pull(x, index{at: "e"}))
		copied = k.over(n.Op.String()+"'s operand", x.Shape().Size())
	}
	if updates.Shape().Size() == 0 {
		return []launch{copied}
	}
	// Updates are batch and window; the window's axes lie in the operand.
	var batch, window, windowAxes []int
	for i, d := range udims {
		if slices.Contains(a.Window, i) {
			window = append(window, d)
		} else {
			batch = append(batch, d)
		}
	}
	for i := range dims {
		if !slices.Contains(a.Inserted, i) {
			windowAxes = append(windowAxes, i)
		}
	}
	extent := func(axis int) int { // of an update along an axis of the operand
		if i := slices.Index(windowAxes, axis); i >= 0 {
			return window[i]
		}
		return 1
	}
	apart := true // updates with different indices do not overlap
	for _, axis := range a.StartIndex {
		apart = apart && extent(axis) == 1
	}
	// starts writes where an update begins along each indexed axis, and whether it lies inside.
	starts := func(k *kernel, update string) (at []string, inside string) {
		b := k.along(index{at: update}, batch)
		inside = "1"
		for j, axis := range a.StartIndex {
			ix := slices.Clone(b)
			if a.IndexVector < len(idims) {
				ix = slices.Insert(ix, a.IndexVector, fmt.Sprint(j))
			}
			i := k.define("i64", fmt.Sprintf("(i64)%s", k.pull(indices, index{axes: ix})))
			at = append(at, i)
			inside += fmt.Sprintf(" && %s >= 0 && %s <= %d", i, i, dims[axis]-extent(axis))
		}
		return at, inside
	}
	combine := func(old, x string) string {
		var e string
		switch n.Op {
		case graph.ScatterSum:
			if t.IsFloat() {
				e = cudac.Rounded(t, old+" + "+x)
			} else {
				e = fmt.Sprintf("(%s)((u64)%s + (u64)%s)", cudac.ComputedIn(t), old, x)
			}
		case graph.ScatterMax:
			e = fmt.Sprintf("larger(%s, %s)", old, x)
		default:
			e = fmt.Sprintf("smaller(%s, %s)", old, x)
		}
		return e
	}
	// element is where the element of an update lies, given its batch and window axes.
	element := func(k *kernel, update string, w []string) index {
		b := k.along(index{at: update}, batch)
		axes := make([]string, len(udims))
		bi, wi := 0, 0
		for i := range udims {
			if slices.Contains(a.Window, i) {
				axes[i] = w[wi]
				wi++
			} else {
				axes[i] = b[bi]
				bi++
			}
		}
		return index{axes: axes}
	}
	k := u.alone(v)
	i := k.indexType()
	if !apart {
		k.push()
		at := k.along(index{at: "e"}, dims)
		acc := k.variable()
		k.printf("%s %s = ld(((const %s *)%s)[e]);", cudac.ComputedIn(t), acc, cudac.Stored(t), k.pointer(v))
		k.loop("u", size(batch), func() {
			begin, inside := starts(k, "u")
			w := make([]string, len(window))
			for wi, axis := range windowAxes {
				w[wi] = at[axis]
			}
			for axis := range dims {
				j := slices.Index(a.StartIndex, axis)
				wi := slices.Index(windowAxes, axis)
				switch {
				case wi < 0 && j >= 0:
					inside += fmt.Sprintf(" && %s == %s", at[axis], begin[j])
				case wi < 0:
					inside += fmt.Sprintf(" && %s == 0", at[axis])
				default:
					if j >= 0 {
						w[wi] = k.defineIndex("%s - %s", at[axis], begin[j])
					}
					inside += fmt.Sprintf(" && %s >= 0 && %s < %s", w[wi], w[wi], k.number(window[wi]))
				}
			}
			k.push()
			e := k.pull(updates, element(k, "u", w))
			k.printf("%s = %s;", acc, combine(acc, e))
			body := k.pop()
			k.printf("if (%s) {\n%s}", inside, body)
		})
		k.printf("st(((%s *)%s)[e], %s);", cudac.Stored(t), k.pointer(v), acc)
		return []launch{copied, k.over(n.Op.String(), size(dims))}
	}
	// place is where an update begins in the operand, -1 outside.
	place := func(update string) string {
		at, inside := starts(k, update)
		list := make([]string, len(dims))
		for axis := range dims {
			list[axis] = "0"
		}
		for j, axis := range a.StartIndex {
			list[axis] = at[j]
		}
		terms := []string{"0"}
		for axis := range dims {
			if list[axis] != "0" {
				terms = append(terms, fmt.Sprintf("%s * %d", list[axis], size(dims[axis+1:])))
			}
		}
		return k.define("i64", fmt.Sprintf("%s ? %s : -1", inside, strings.Join(terms, " + ")))
	}
	// A block for each update; the first of those at one place goes on.
	total := size(batch)
	k.push() // blocks' loop
	mine := place("u")
	k.push()
	other := place("w")
	k.printf("if (%s == %s) later = 1;", other, mine)
	search := k.pop()
	k.printf("int later = %s < 0;", mine)
	k.printf("for (%s w = threadIdx.x; w < u && !later; w += %d) {\n%s}", i, threads, search)
	k.printf("if (__syncthreads_or(later)) continue;")
	k.push() // the updates from u on
	k.push()
	list := k.along(index{at: "f"}, window)
	axes := make([]string, len(dims))
	for axis := range dims {
		axes[axis] = "0"
		if wi := slices.Index(windowAxes, axis); wi >= 0 {
			axes[axis] = list[wi]
		}
	}
	at := k.define("i64", fmt.Sprintf("%s + %s", mine, k.place(index{axes: axes}, dims)))
	old := k.define(cudac.ComputedIn(t), fmt.Sprintf("ld(((const %s *)%s)[%s])", cudac.Stored(t), k.pointer(v), at))
	e := k.pull(updates, element(k, "w", list))
	k.printf("st(((%s *)%s)[%s], %s);", cudac.Stored(t), k.pointer(v), at, combine(old, e))
	body := k.pop()
	k.printf("for (%s f = threadIdx.x; f < %s; f += %d) {\n%s}", i, k.number(size(window)), threads, body)
	body = k.pop()
	// Blocks look at as many indices at a time as they have threads, and go through
	// those that are theirs.
	k.printf("__shared__ int hit[%d];", threads)
	k.push()
	k.push()
	candidate := place("w")
	k.printf("is = %s == %s;", candidate, mine)
	text := k.pop()
	k.printf("const %s w = w0 + threadIdx.x;", i)
	k.printf("int is = 0;")
	k.printf("if (w < %s) {\n%s}", k.number(total), text)
	k.printf("hit[threadIdx.x] = is;")
	k.printf("if (!__syncthreads_or(is)) continue;")
	k.printf("for (int h = 0; h < %d; h++) {", threads)
	k.printf("    if (!hit[h]) continue;")
	k.printf("    const %s w = w0 + h;", i)
	k.scope.text.WriteString(body)
	k.printf("}")
	k.printf("__syncthreads();")
	text = k.pop()
	k.printf("for (%s w0 = u; w0 < %s; w0 += %d) {\n%s}", i, k.number(total), threads, text)
	body = k.pop()
	k.printf("for (%s u = blockIdx.x; u < %s; u += gridDim.x) {\n%s}", i, k.number(total), body)
	l := launch{name: n.Op.String(), grid: [2]int{min(total, 8*mostBlocks), 1}}
	l.fill(k)
	return []launch{copied, l}
}

// windowIndex writes where an operand's element lies that a window has, and whether it
// is there.
func windowIndex(k *kernel, w *graph.Windows, dims []int, at, in []string) (axes []string, inside string) {
	axes, inside = make([]string, len(dims)), "1"
	for i, d := range dims {
		if w.Dims[i] == 1 && w.Strides[i] == 1 && w.Low[i] == 0 && w.High[i] == 0 && w.Dilation[i] == 1 {
			axes[i] = at[i]
			continue
		}
		axes[i] = k.defineIndex("%s * %d + %s * %d - (%d)", at[i], w.Strides[i], in[i], w.WindowDilation[i], w.Low[i])
		inside += fmt.Sprintf(" && %s >= 0", axes[i])
		if w.Dilation[i] > 1 {
			inside += fmt.Sprintf(" && %s %% %d == 0", axes[i], w.Dilation[i])
			axes[i] = k.defineIndex("%s / %d", axes[i], w.Dilation[i])
		}
		inside += fmt.Sprintf(" && %s < %s", axes[i], k.number(d))
	}
	return axes, inside
}

func window(k *kernel, v graph.Value, at []string) string {
	n := v.Node()
	w, x, t := n.Attr.(*graph.Windows), n.Inputs[0], v.Shape().Type
	of, init := reducer(w.Reduction, t)
	acc := k.variable()
	k.printf("%s %s = %s;", cudac.ComputedIn(t), acc, init)
	k.loops("w", w.Dims, func(in []string) {
		axes, inside := windowIndex(k, w, x.Shape().Dims, at, in)
		k.push()
		e := k.pull(x, index{axes: axes})
		k.printf("%s = %s::of(%s, %s);", acc, of, acc, e)
		body := k.pop()
		k.printf("if (%s) {\n%s}", inside, body)
	})
	return cudac.Rounded(t, acc)
}

// selectAndScatter finds the chosen element of each window, and then has each element of
// the operand look through the windows that it lies in, and add the source of those in
// which it is the chosen one.
func (u *unit) selectAndScatter(v graph.Value) []launch {
	n := v.Node()
	w, x, source, t := n.Attr.(*graph.Windows), n.Inputs[0], n.Inputs[1], v.Shape().Type
	dims, outs := x.Shape().Dims, source.Shape().Dims
	of := map[graph.Op]string{graph.SelectAndScatterMax: "first_largest", graph.SelectAndScatterMin: "first_smallest"}[n.Op]
	if size(outs) == 0 {
		return []launch{u.each(v, func(*kernel, graph.Value, []string) string { return "(" + cudac.ComputedIn(t) + ")0" })}
	}
	k := u.alone(v)
	i := k.indexType()
	bytes := int64(size(outs)) * 8
	k.push()
	window := k.along(index{at: "e"}, outs)
	best := k.variable()
	found := "found<" + cudac.ComputedIn(t) + ">"
	k.printf("%s %s = {0, -1};", found, best)
	k.loops("w", w.Dims, func(in []string) {
		axes, there := windowIndex(k, w, dims, window, in)
		k.push()
		e := k.pull(x, index{axes: axes})
		k.printf("%s = %s::of(%s, %s{%s, (i64)%s});", best, of, best, found, e, k.place(index{axes: axes}, dims))
		body := k.pop()
		k.printf("if (%s) {\n%s}", there, body)
	})
	k.printf("((%s *)%s)[e] = (%s)%s.at;", i, k.scratchPointer(), i, best)
	choose := k.over(n.Op.String()+"'s choice", size(outs))
	choose.scratch = bytes

	k = u.alone(v)
	k.pointer(source)
	k.pointer(v)
	k.push()
	at := k.along(index{at: "e"}, dims)
	acc := k.variable()
	k.printf("%s %s = 0;", cudac.ComputedIn(t), acc)
	// Windows that have the element: the first one, and how many there can be.
	most := make([]int, len(dims))
	first := make([]string, len(dims))
	for i := range dims {
		most[i] = (w.Dims[i] + w.Strides[i] - 1) / w.Strides[i]
		if w.Dims[i] == 1 && w.Strides[i] == 1 && w.Low[i] == 0 {
			first[i] = at[i]
			continue
		}
		lowest := k.defineIndex("%s + %d - %d", at[i], w.Low[i], w.Dims[i]-1)
		first[i] = k.defineIndex("%s <= 0 ? 0 : (%s + %d) / %d", lowest, lowest, w.Strides[i]-1, w.Strides[i])
	}
	k.loops("n", most, func(nth []string) {
		window, inside := make([]string, len(dims)), "1"
		for i := range dims {
			if first[i] == at[i] && most[i] == 1 {
				window[i] = at[i]
				inside += fmt.Sprintf(" && %s < %d", at[i], outs[i])
				continue
			}
			window[i] = k.defineIndex("%s + %s", first[i], nth[i])
			inside += fmt.Sprintf(" && %s < %d && %s * %d - (%d) <= %s", window[i], outs[i], window[i], w.Strides[i], w.Low[i], at[i])
		}
		k.push()
		chosen := k.defineIndex("((const %s *)%s)[%s]", i, k.scratchPointer(), k.place(index{axes: window}, outs))
		k.push()
		e := k.pull(source, index{axes: window})
		k.printf("%s = sum::of(%s, %s);", acc, acc, e)
		body := k.pop()
		k.printf("if (%s == e) {\n%s}", chosen, body)
		body = k.pop()
		k.printf("if (%s) {\n%s}", inside, body)
	})
	k.printf("st(((%s *)%s)[e], %s);", cudac.Stored(t), k.pointer(v), cudac.Rounded(t, acc))
	add := k.over(n.Op.String(), size(dims))
	add.scratch = bytes
	return []launch{choose, add}
}

// sumType is what products are added up in.
func sumType(t dtype.DType) string { return cudac.ComputedIn(t) }

// product is a DotGeneral in which a thread adds up one element: for types and strides
// that the library does not take.
func product(k *kernel, v graph.Value, at []string) string {
	n := v.Node()
	a := n.Attr.(*graph.DotAxes)
	t := v.Shape().Type
	acc := k.variable()
	k.printf("%s %s = 0;", sumType(t), acc)
	var contracted []int
	for _, axis := range a.Contracted[0] {
		contracted = append(contracted, n.Inputs[0].Shape().Dims[axis])
	}
	// The result has the batch axes, then those of each operand that are left.
	next := len(a.Batch[0])
	list := [2][]string{make([]string, n.Inputs[0].Shape().Rank()), make([]string, n.Inputs[1].Shape().Rank())}
	for side := range list {
		for axis := range list[side] {
			switch i := slices.Index(a.Batch[side], axis); {
			case i >= 0:
				list[side][axis] = at[i]
			case !slices.Contains(a.Contracted[side], axis):
				list[side][axis] = at[next]
				next++
			}
		}
	}
	k.loops("k", contracted, func(in []string) {
		var e [2]string
		for side := range list {
			axes := slices.Clone(list[side])
			for i, axis := range a.Contracted[side] {
				axes[axis] = in[i]
			}
			f, order := k.u.Factor(n.Inputs[side])
			from := make([]string, len(axes))
			for i, o := range order {
				from[o] = axes[i]
			}
			e[side] = k.pull(f, index{axes: from})
		}
		c := sumType(t)
		if t.IsFloat() {
			k.printf("%s += (%s)%s * (%s)%s;", acc, c, e[0], c, e[1])
		} else {
			k.printf("%s = (%s)((u64)%s + (u64)(%s)%s * (u64)(%s)%s);", acc, c, acc, c, e[0], c, e[1])
		}
	})
	return cudac.Rounded(t, acc)
}
