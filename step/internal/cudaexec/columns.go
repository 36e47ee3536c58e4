package cudaexec

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// columns writes reductions of the columns of as many rows: all in one pass over the
// elements. A thread takes some columns that lie side by side, and every n-th of the rows
// that its block has; where there are few columns, blocks share the rows, and a second
// kernel brings their results together. The order depends on the shape alone.
func (u *unit) columns(s access.Space, stores []graph.Value) error {
	for _, v := range stores {
		if v.Shape().Size() != s.Columns || u.spaceOf(v) != s {
			return fmt.Errorf("cudaexec: %w: %v is fused with reductions of columns", ErrUnsupported, v.Node().Op)
		}
	}
	first, parts, err := u.columnsBy(s, stores, 1)
	if err != nil {
		return err
	}
	if vector := first.widest(s.Columns); vector > 1 {
		if first, parts, err = u.columnsBy(s, stores, vector); err != nil {
			return err
		}
	}
	u.launches = append(u.launches, first)
	if parts > 1 {
		second := u.columnParts(s, stores, parts)
		u.launches = append(u.launches, second)
		return second.err
	}
	return nil
}

// partBytes is how far the results of blocks that share rows are apart, for each of the
// reductions.
func partBytes(s access.Space, parts int) int64 { return aligned(int64(parts) * int64(s.Columns) * 8) }

// columnsBy writes the kernel for some columns of a thread at a time, and says in how many
// parts the rows are.
func (u *unit) columnsBy(s access.Space, stores []graph.Value, vector int) (l launch, parts int, err error) {
	lanes := 1 // threads beside each other
	for lanes < 32 && 2*lanes*vector <= s.Columns {
		lanes *= 2
	}
	deep := threads / lanes
	tiles := (s.Columns + lanes*vector - 1) / (lanes * vector)
	const eachThread = 8 // rows, at least
	parts = max(1, min(1024/tiles, s.Rows/(deep*eachThread), 512))
	chunk := (s.Rows + parts - 1) / parts

	k := u.kernel(s.Rows * s.Columns)
	k.vector = vector
	k.scope = newScope(nil)
	i, c := k.indexType(), k.number(s.Columns)
	k.split = map[string]rowColumn{"e": {"row", "col", s.Rows, s.Columns}}
	k.firsts = map[string]first{"e": {"row * " + c + " + c0", s.Rows * s.Columns}, "col": {"c0", s.Columns}}
	k.printf("const %s c0 = ((%s)blockIdx.x * %d + threadIdx.x %% %d) * %d;", i, i, lanes, lanes, vector)
	k.printf("const %s from = (%s)blockIdx.y * %s, to = smaller(from + %s, (%s)%s);", i, i, k.number(chunk), k.number(chunk), i, k.number(s.Rows))
	for n, v := range stores {
		_, init := reducer(v.Node().Op, v.Shape().Type)
		k.printf("%s acc%d[%d];", cudac.ComputedIn(v.Shape().Type), n, vector)
		k.printf("for (int j = 0; j < %d; j++) acc%d[j] = %s;", vector, n, init)
	}
	j, declare := "j", fmt.Sprintf("            const %s col = c0 + j, e = row * %s + col;\n", i, c)
	if vector == 1 {
		j, declare = "0", fmt.Sprintf("            const %s col = c0, e = row * %s + col;\n", i, c)
	}
	k.push()
	k.elements(declare, func() {
		for n, v := range stores {
			of, _ := reducer(v.Node().Op, v.Shape().Type)
			x := k.pull(v.Node().Inputs[0], index{at: "e"})
			k.printf("acc%d[%s] = %s::of(acc%d[%s], %s);", n, j, of, n, j, x)
		}
	}, nil)
	body := k.pop()
	k.scope.text.WriteString("#pragma unroll 4\n")
	k.printf("for (%s row = from + threadIdx.x / %d; row < to && c0 < %s; row += %d) {\n%s    }", i, lanes, c, deep, body)
	arrays := len(k.pointers)
	for n, v := range stores {
		t := v.Shape().Type
		of, _ := reducer(v.Node().Op, t)
		to := ""
		if parts == 1 {
			to = fmt.Sprintf("st(((%s *)%s)[c0 + j], %s)", cudac.Stored(t), k.pointer(v), cudac.Rounded(t, "a"))
		} else {
			// Behind the arrays that are read; results are the second kernel's.
			to = fmt.Sprintf("((%s *)((u8 *)p.p[%d] + %dll))[(%s)blockIdx.y * %s + c0 + j] = a", cudac.ComputedIn(t), arrays, int64(n)*partBytes(s, parts), i, c)
		}
		k.printf("for (int j = 0; j < %d; j++) {", vector)
		k.printf("    const %s a = over_block<%s, %d>(acc%d[j]);", cudac.ComputedIn(t), of, lanes, n)
		k.printf("    if ((int)threadIdx.x < %d && c0 < %s) %s;", lanes, c, to)
		k.printf("}")
	}
	l = launch{name: u.name(), grid: [2]int{tiles, parts}}
	if parts > 1 {
		l.scratch = int64(len(stores)) * partBytes(s, parts)
	}
	l.fill(k)
	return l, parts, k.err
}

// columnParts brings results of parts together.
func (u *unit) columnParts(s access.Space, stores []graph.Value, parts int) launch {
	const lanes = 8
	k := u.kernel(s.Columns * parts)
	k.scope = newScope(nil)
	i, c := k.indexType(), k.number(s.Columns)
	k.printf("const %s o = (%s)blockIdx.x * %d + threadIdx.x %% %d;", i, i, lanes, lanes)
	for _, v := range stores {
		k.pointer(v)
	}
	for n, v := range stores {
		t := v.Shape().Type
		of, init := reducer(v.Node().Op, t)
		ct := cudac.ComputedIn(t)
		k.printf("%s a%d = %s;", ct, n, init)
		k.printf("for (int s = threadIdx.x / %d; s < %d && o < %s; s += %d) a%d = %s::of(a%d, ((const %s *)((u8 *)%s + %dll))[s * %s + o]);",
			lanes, parts, c, threads/lanes, n, of, n, ct, k.scratchPointer(), int64(n)*partBytes(s, parts), c)
		k.printf("a%d = over_block<%s, %d>(a%d);", n, of, lanes, n)
		k.printf("if ((int)threadIdx.x < %d && o < %s) st(((%s *)%s)[o], %s);", lanes, c, cudac.Stored(t), k.pointer(v), cudac.Rounded(t, fmt.Sprintf("a%d", n)))
	}
	l := launch{name: u.name() + " of parts", grid: [2]int{(s.Columns + lanes - 1) / lanes, 1}, scratch: int64(len(stores)) * partBytes(s, parts)}
	l.fill(k)
	return l
}
