package cudaexec

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// A product of a matrix and a vector, or of as many of each, reads the matrix once: it
// takes as long as that, and a library for products of matrices takes longer where they
// are small. Its kernel computes what is done with each element of the result, too.

// vectorProduct is one: rows of its space are contracted, columns are the matrix's others,
// and n are the results.
type vectorProduct struct {
	*kernel
	access.Space
	v           graph.Value
	matrix      graph.Value // which has to lie in memory
	x           graph.Value // the vector
	at          []string    // indexes of the vector's axes
	inner       bool        // its last axis is contracted
	batchStride int         // of the matrix, in elements, and:
	stride      int         // from one contracted index to the next, or from one column
	byRows      bool        // columns lie side by side
}

// vectorProduct finds out whether a value is one.
func (s *views) vectorProduct(v graph.Value) (*vectorProduct, bool) {
	n := v.Node()
	if n.Op != graph.DotGeneral || !v.Shape().Type.IsFloat() || v.Shape().Size() == 0 {
		return nil, false
	}
	a, dims := n.Attr.(*graph.DotAxes), n.Inputs[0].Shape().Dims
	count := [2]int{1, 1} // of batches, and contracted; one axis of each is longer than 1
	for i, axes := range [2][]int{a.Batch[0], a.Contracted[0]} {
		for _, axis := range axes {
			if dims[axis] != 1 && count[i] != 1 {
				return nil, false
			}
			count[i] *= dims[axis]
		}
	}
	side := 0 // of the matrix
	if n.Inputs[0].Shape().Size() == count[0]*count[1] {
		side = 1
	}
	f, order := s.Factor(n.Inputs[side])
	p := &vectorProduct{v: v, matrix: s.Base(f), x: n.Inputs[1-side], at: make([]string, n.Inputs[1-side].Shape().Rank())}
	m, ok := access.MatrixOf(f.Shape().Dims, order, a.Batch[side], a.Contracted[side])
	if !ok || count[1] < 2 || p.x.Shape().Size() != count[0]*count[1] || f.Shape().Type.Size() != p.matrix.Shape().Type.Size() {
		return nil, false
	}
	p.Space = access.Space{Kind: access.Vectors, N: v.Shape().Size(), Rows: count[1], Columns: v.Shape().Size() / count[0]}
	p.stride, p.byRows = m.Stride, m.ByContracted
	for _, b := range m.Batch {
		if b.Count != 1 {
			p.batchStride = b.Stride
		}
	}
	for i, d := range p.x.Shape().Dims {
		switch {
		case d == 1:
			p.at[i] = "0"
			continue
		case slices.Contains(a.Batch[1-side], i):
			p.at[i] = "b"
		default:
			p.at[i] = "r"
		}
		p.inner = p.at[i] == "r"
	}
	return p, true
}

// products writes a product of matrices and vectors, and what is made of each of its
// elements.
func (u *unit) products(stores []graph.Value) error {
	var p *vectorProduct
	for _, n := range u.task.Nodes {
		if x, ok := u.vectorProduct(n.Value(0)); ok {
			p = x
		}
	}
	if !u.Given[p.matrix] {
		return fmt.Errorf("cudaexec: %w: a product of a matrix that is not in memory", ErrUnsupported)
	}
	k := u.kernel(max(p.N, p.matrix.Shape().Size()))
	k.scope = newScope(nil)
	k.firsts = map[string]first{}
	for _, v := range stores {
		k.aligned[v] = true
	}
	k.product = p.v
	p.kernel = k
	p.pointer(p.matrix)
	k.apart[p.matrix] = true
	l := launch{name: u.name(), apart: k.apart, product: true}
	if p.byRows {
		p.overRows(&l, stores)
	} else {
		p.overColumns(&l, stores)
	}
	l.fill(k)
	u.launches = append(u.launches, l)
	return k.err
}

// inlinesOperand says whether an operand of a product may be computed where it is wanted: a
// vector.
func (s *views) inlinesOperand(n *graph.Node, j int) bool {
	if n.Op != graph.DotGeneral {
		return false
	}
	p, ok := s.vectorProduct(n.Value(0))
	return ok && n.Inputs[j] == p.x && p.x != n.Inputs[1-j]
}

// vectorProducts are the kernels of a task with a product with vectors, if it is one.
func (e *executor) vectorProducts(t *step.Task) *unit {
	if !slices.ContainsFunc(t.Nodes, func(n *graph.Node) bool { return n.Op == graph.DotGeneral }) {
		return nil
	}
	if u, err := compile(t); err == nil && slices.ContainsFunc(u.launches, func(l launch) bool { return l.product }) {
		return u
	}
	return nil
}

// views are [access.Views], of graphs whose products with vectors have kernels of their own.
type views struct{ access.Views }

// spaceOf is [access.SpaceOf].
func (s *views) spaceOf(v graph.Value) access.Space {
	if p, ok := s.vectorProduct(v); ok {
		return p.Space
	}
	return access.SpaceOf(v)
}

// together is [access.Together] of what is read and what reads it. What a product reads is
// not computed for each of its results.
func (s *views) together(a, b access.Space) (access.Space, bool) {
	switch {
	case b.Kind == access.Vectors:
		return access.Space{}, false
	case a.Kind == access.Vectors:
		return a, b.Kind == access.Loop && b.N == a.N
	case a.Kind == access.Rows && a.Rows == 1 && b.Kind == access.Loop && b.N == 1:
		return a, true
	}
	return access.Together(a, b)
}

// widest is how many elements of the matrix, side by side in lines of so many, are read
// at a time.
func (p *vectorProduct) widest(line int) int {
	w := 16 / p.matrix.Shape().Type.Size()
	for w > 1 && (line%w != 0 || p.stride%w != 0 || p.batchStride%w != 0) {
		w /= 2
	}
	return w
}

// read is some elements of the matrix, of a type.
func (p *vectorProduct) read(width int, at string) (kind, load string) {
	t := cudac.Stored(p.matrix.Shape().Type)
	kind = fmt.Sprintf("vec<%s, %d>", t, width)
	return kind, fmt.Sprintf("*(const %s *)((const %s *)%s + (%s))", kind, t, p.pointer(p.matrix), at)
}

func (p *vectorProduct) wideNumber(n int) string {
	return fmt.Sprintf("(%s)%s", p.indexType(), p.number(n))
}

// atOnce is how many rows a thread reads at most before it multiplies the first: reading
// takes long, and all of them take no longer.
const atOnce = 8

// overRows has columns side by side: a thread takes some of them, and every n-th row. The
// threads of a block bring their rows together.
func (p *vectorProduct) overRows(l *launch, stores []graph.Value) {
	width := p.widest(p.Columns)
	// Blocks for all multiprocessors, of lines of 32 bytes at least.
	batch := p.N / p.Columns
	least := max(1, 32/(width*p.matrix.Shape().Type.Size()))
	lanes := 32
	for lanes > least && (lanes/2*width >= p.Columns || (p.Columns+lanes*width-1)/(lanes*width)*batch < multiprocessors) {
		lanes /= 2
	}
	tile := lanes * width
	l.grid = [2]int{(p.Columns + tile - 1) / tile, batch}
	// Where there are few blocks, more threads in each, so that all rows are on their way together.
	l.threads = threads
	for l.threads < 1024 && p.Rows > atOnce/2*l.threads/lanes && l.grid[0]*batch*l.threads < 2048*multiprocessors {
		l.threads *= 2
	}
	deep := l.threads / lanes
	times := (p.Rows + deep - 1) / deep
	together := (times + (times+atOnce-1)/atOnce - 1) / ((times + atOnce - 1) / atOnce)
	i, t := p.indexType(), cudac.ComputedIn(p.v.Shape().Type)

	p.printf("const %s b = blockIdx.y, c0 = ((%s)blockIdx.x * %d + threadIdx.x %% %d) * %d;", i, i, lanes, lanes, width)
	p.printf("%s acc[%d];", t, width)
	p.printf("for (int j = 0; j < %d; j++) acc[j] = 0;", width)
	p.push() // the loop
	row, behind := fmt.Sprintf("r0 + k * %d", deep), ""
	if p.Rows%(deep*together) != 0 {
		row, behind = fmt.Sprintf("smaller(%s, (%s)%s)", row, i, p.number(p.Rows-1)), fmt.Sprintf("if (r0 + k * %d < %s) ", deep, p.number(p.Rows))
	}
	kind, load := p.read(width, fmt.Sprintf("b * %s + r * %s + c0", p.wideNumber(p.batchStride), p.wideNumber(p.stride)))
	p.printf("%s w[%d];", kind, together)
	p.printf("%s x[%d];", t, together)
	p.push()
	p.printf("const %s r = %s;", i, row)
	p.printf("w[k] = %s;", load)
	p.printf("x[k] = (%s)%s;", t, p.pull(p.x, index{axes: p.at}))
	body := p.pop()
	p.scope.text.WriteString("#pragma unroll\n")
	p.printf("for (int k = 0; k < %d; k++) {\n%s        }", together, body)
	p.scope.text.WriteString("#pragma unroll\n")
	p.printf("for (int k = 0; k < %d; k++) %sfor (int j = 0; j < %d; j++) acc[j] += (%s)ld(w[k].a[j]) * x[k];", together, behind, width, t)
	body = p.pop()
	p.printf("for (%s r0 = threadIdx.x / %d; r0 < %s && c0 < %s; r0 += %d) {\n%s    }", i, lanes, p.number(p.Rows), p.number(p.Columns), deep*together, body)
	if lanes < 32 {
		p.printf("for (int m = %d; m < 32; m *= 2)", lanes)
		p.printf("    for (int j = 0; j < %d; j++) acc[j] += swapped(acc[j], m);", width)
	}
	p.printf("__shared__ %s parts[%d][%d];", t, l.threads/32, tile)
	p.printf("if (threadIdx.x %% 32 < %d)", lanes)
	p.printf("    for (int j = 0; j < %d; j++) parts[threadIdx.x / 32][threadIdx.x %% 32 * %d + j] = acc[j];", width, width)
	p.printf("__syncthreads();")
	p.push()
	p.printf("const %s e = b * %s + (%s)blockIdx.x * %d + c;", i, p.number(p.Columns), i, tile)
	p.printf("%s all = parts[0][c];", t)
	p.printf("for (int w = 1; w < %d; w++) all += parts[w][c];", l.threads/32)
	p.finish(stores)
	body = p.pop()
	p.printf("for (%s c = threadIdx.x; c < %d && (%s)blockIdx.x * %d + c < %s; c += %d) {\n%s    }", i, tile, i, tile, p.number(p.Columns), l.threads, body)
}

// overColumns has the elements of a column side by side: some threads of a warp share it.
func (p *vectorProduct) overColumns(l *launch, stores []graph.Value) {
	width := p.widest(p.Rows)
	lanes := 32
	for lanes > 1 && lanes/2*width >= p.Rows {
		lanes /= 2
	}
	i, t := p.indexType(), cudac.ComputedIn(p.v.Shape().Type)
	p.printf("const %s e = (%s)blockIdx.x * %d + threadIdx.x / %d, lane = threadIdx.x %% %d;", i, i, threads/lanes, lanes, lanes)
	p.printf("const %s b = e / %s, c = e %% %s;", i, p.number(p.Columns), p.number(p.Columns))
	p.printf("%s all = 0;", t)
	p.push() // the loop
	p.vector = width
	p.firsts["r"] = first{"r0", p.Rows}
	dims, declare, each := p.x.Shape().Dims, "r0", "0"
	if width > 1 {
		declare, each = "r0 + j", "j"
	}
	kind, load := p.read(width, fmt.Sprintf("b * %s + c * %s + r0", p.wideNumber(p.batchStride), p.wideNumber(p.stride)))
	p.printf("const %s w = %s;", kind, load)
	p.elements(fmt.Sprintf("            const %s r = %s;\n", i, declare), func() {
		if at := p.place(index{axes: p.at}, dims); p.inner && at != "r" {
			p.firsts[at] = first{fmt.Sprintf("b * %s + r0", p.number(p.Rows)), size(dims)}
		}
		x := p.pull(p.x, index{axes: p.at})
		p.printf("all += (%s)ld(w.a[%s]) * (%s)%s;", t, each, t, x)
	}, nil)
	body := p.pop()
	p.vector = 1
	p.scope.text.WriteString("#pragma unroll 4\n")
	p.printf("for (%s r0 = lane * %d; r0 < %s && e < %s; r0 += %d) {\n%s    }", i, width, p.number(p.Rows), p.number(p.N), lanes*width, body)
	if lanes > 1 {
		p.printf("for (int m = %d; m > 0; m /= 2) all += swapped(all, m);", lanes/2)
	}
	p.push()
	p.finish(stores)
	body = p.pop()
	p.printf("if (lane == 0 && e < %s) {\n%s    }", p.number(p.N), body)
	l.grid = [2]int{(p.N + threads/lanes - 1) / (threads / lanes), 1}
}

// finish writes what is made of element e, whose sum is all.
func (p *vectorProduct) finish(stores []graph.Value) {
	t := p.v.Shape().Type
	p.made = p.define(cudac.ComputedIn(t), cudac.Rounded(t, "all"))
	list := make([]string, len(stores))
	for i, v := range stores {
		list[i] = p.pull(v, index{at: "e"})
	}
	for i, v := range stores {
		p.printf("st(((%s *)%s)[e], %s);", cudac.Stored(v.Shape().Type), p.pointer(v), list[i])
	}
}
