package host

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
)

// block is how many elements a program computes at a time: 4 KiB of float32, so that
// what goes from one operation to the next stays in the first-level cache.
const block = 1024

// program is a chain of element-wise operations, which runs as a loop over blocks: each
// operation computes its block of a register before the next one does.
type program struct {
	dims      []int
	loads     []load
	code      []instruction
	stores    []store
	registers int
	states    sync.Pool
}

// register holds a block of computed elements.
type register = []byte

// instruction computes a block of n elements, of which the first is number at.
type instruction struct {
	to   int
	from []int
	run  func(to register, from []register, n, at int)
}

// load brings a block of an input into a register.
type load struct {
	to     int
	input  int
	from   dtype.DType
	w      walk // of the whole shape, without loops of one turn
	direct bool // the input's memory is the register
	once   bool // each element is the same
}

// store takes a block of a register to an output.
type store struct {
	from   int
	output int
	as     dtype.DType
	direct bool // the output's memory is the register
}

// newProgram compiles a task of element-wise operations.
func newProgram(t *step.Task) (*program, error) {
	last := t.Nodes[len(t.Nodes)-1]
	p := &program{dims: last.Shapes[0].Dims}
	b := builder{program: p, task: t, loaded: map[string]int{}, at: map[graph.Value]int{}}
	for _, n := range t.Nodes {
		if len(t.Nodes) > 1 && !slices.Equal(n.Shapes[0].Dims, p.dims) {
			return nil, fmt.Errorf("step: %v: %w: it is fused with operations of other dimensions, %v", n, step.ErrNotSupported, p.dims)
		}
		if err := b.add(n); err != nil {
			return nil, err
		}
	}
	for i, v := range t.Outputs {
		from, ok := b.at[v]
		if !ok {
			return nil, fmt.Errorf("step: %w: task does not compute %v", step.ErrArgument, v)
		}
		as := v.Shape().Type
		p.stores = append(p.stores, store{from: from, output: i, as: as, direct: !half(as)})
	}
	p.allocate()
	return p, nil
}

// builder makes a program in which each value has a register of its own.
type builder struct {
	*program
	task   *step.Task
	loaded map[string]int
	at     map[graph.Value]int
}

func (b *builder) register() int {
	b.registers++
	return b.registers - 1
}

// operand is the register of a value that a node reads.
func (b *builder) operand(v graph.Value) (int, error) {
	if r, ok := b.at[v]; ok {
		return r, nil
	}
	s := v.Shape()
	rank := len(b.dims)
	axes := make([]int, s.Rank())
	for i := range axes {
		axes[i] = i + rank - s.Rank()
	}
	return b.load(v, axes)
}

// load is the register of an input whose axes are those of the program.
func (b *builder) load(v graph.Value, axes []int) (int, error) {
	input := slices.Index(b.task.Inputs, v)
	if input < 0 {
		return 0, fmt.Errorf("step: %w: task reads %v, which is no input", step.ErrArgument, v)
	}
	s := v.Shape()
	step := make([]int, len(b.dims))
	for i, n := range strides(s.Dims) {
		if s.Dims[i] > 1 {
			step[axes[i]] = n
		}
	}
	key := fmt.Sprint(input, step)
	if r, ok := b.loaded[key]; ok {
		return r, nil
	}
	l := load{to: b.register(), input: input, from: s.Type}
	l.w = walk{b.dims, [][]int{step}}.collapse()
	l.once = !slices.ContainsFunc(l.w.strides[0], func(n int) bool { return n != 0 })
	l.direct = l.contiguous() && !half(s.Type)
	b.loads = append(b.loads, l)
	b.loaded[key] = l.to
	return l.to, nil
}

func (b *builder) add(n *graph.Node) error {
	v := n.Value(0)
	switch n.Op {
	case graph.Identity:
		r, err := b.operand(n.Inputs[0])
		b.at[v] = r
		return err
	case graph.BroadcastInDim:
		r, err := b.load(n.Inputs[0], n.Attr.(graph.Axes))
		b.at[v] = r
		return err
	}
	in := instruction{to: b.register()}
	for _, x := range n.Inputs {
		r, err := b.operand(x)
		if err != nil {
			return err
		}
		in.from = append(in.from, r)
	}
	in.run = elementFunction(n)
	if in.run == nil {
		return fmt.Errorf("step: %v: %w", n, step.ErrNotSupported)
	}
	if t := n.Shapes[0].Type; half(t) && rounds(n.Op) {
		exact := in.run
		in.run = func(to register, from []register, n, at int) {
			exact(to, from, n, at)
			rounded(t, view[float32](to)[:n])
		}
	}
	b.code = append(b.code, in)
	b.at[v] = in.to
	return nil
}

// rounds reports whether the result of an operation on numbers of a type may be none of
// that type.
func rounds(op graph.Op) bool {
	switch op {
	case graph.Abs, graph.Neg, graph.Sign, graph.Max, graph.Min, graph.Where, graph.Floor, graph.Ceil, graph.Round, graph.Convert:
		return false
	}
	return true
}

// allocate gives registers that are not used at the same time the same memory. Those
// that are memory of inputs or outputs, or hold the same elements throughout, keep their
// own.
func (p *program) allocate() {
	last := make([]int, p.registers) // instruction that reads it last
	keeps := make([]bool, p.registers)
	for _, l := range p.loads {
		keeps[l.to] = l.direct || l.once
	}
	for i, in := range p.code {
		for _, r := range in.from {
			last[r] = i
		}
	}
	for _, s := range p.stores {
		last[s.from] = len(p.code)
		keeps[s.from] = keeps[s.from] || s.direct
	}
	place := make([]int, p.registers)
	for r := range place {
		place[r] = -1
	}
	var free []int
	count := 0
	take := func(r int) {
		switch {
		case place[r] >= 0:
		case !keeps[r] && len(free) > 0:
			place[r] = free[len(free)-1]
			free = free[:len(free)-1]
		default:
			place[r] = count
			count++
		}
	}
	for _, l := range p.loads {
		take(l.to)
	}
	for i := range p.code {
		in := &p.code[i]
		take(in.to)
		for _, r := range in.from {
			if !keeps[r] && last[r] == i && !slices.Contains(free, place[r]) {
				free = append(free, place[r])
			}
		}
	}
	for i := range p.loads {
		p.loads[i].to = place[p.loads[i].to]
	}
	for i := range p.code {
		p.code[i].to = place[p.code[i].to]
		from := slices.Clone(p.code[i].from)
		for j, r := range from {
			from[j] = place[r]
		}
		p.code[i].from = from
	}
	for i := range p.stores {
		p.stores[i].from = place[p.stores[i].from]
	}
	p.registers = count
}

// canAlias reports whether an output may lie where an input does: each block of the
// input has to be read for the last time before it is overwritten.
func (p *program) canAlias(output, input int) bool {
	to := p.stores[slices.IndexFunc(p.stores, func(s store) bool { return s.output == output })]
	writer := slices.IndexFunc(p.code, func(in instruction) bool { return in.to == to.from })
	for _, l := range p.loads {
		if l.input != input {
			continue
		}
		if !l.contiguous() || l.from.Size() != to.as.Size() {
			return false
		}
		if !l.direct {
			continue // it is read into a register before anything is written
		}
		for _, s := range p.stores {
			if s.from == l.to && s.output != output {
				return false
			}
		}
		if writer >= 0 && slices.ContainsFunc(p.code[writer+1:], func(in instruction) bool { return slices.Contains(in.from, l.to) }) {
			return false
		}
	}
	return true
}

// contiguous reports whether elements are loaded one behind the other.
func (l *load) contiguous() bool {
	return len(l.w.dims) == 0 || len(l.w.dims) == 1 && l.w.strides[0][0] == 1
}

// run runs the program over all elements.
func (p *program) run(in, out [][]byte) {
	blocks := max(grain/block/max(len(p.code), 1), 1)
	parallel(product(p.dims), blocks*block, func(from, to int) {
		s, _ := p.states.Get().(*state)
		if s == nil {
			s = p.newState()
		}
		p.part(s, in, out, from, to)
		p.states.Put(s)
	})
}

// state is the registers of a program while it runs on one goroutine.
type state struct {
	own      [][]byte // memory, of those that have any
	now      []register
	operands [][]register // of each instruction
}

func (p *program) newState() *state {
	s := &state{make([][]byte, p.registers), make([]register, p.registers), make([][]register, len(p.code))}
	for i, c := range p.code {
		s.operands[i] = make([]register, len(c.from))
	}
	return s
}

// room is a register's own memory.
func (s *state) room(r int) register {
	if s.own[r] == nil {
		s.own[r] = bytesOf(make([]uint64, block))
	}
	return s.own[r]
}

// part runs the program over some of the elements.
func (p *program) part(s *state, in, out [][]byte, from, to int) {
	for at := from; at < to; at += block {
		n := min(block, to-at)
		for i := range p.loads {
			l := &p.loads[i]
			switch {
			case l.direct:
				size := l.from.Size()
				s.now[l.to] = in[l.input][at*size : (at+n)*size]
			case l.once && at > from:
			default:
				s.now[l.to] = s.room(l.to)
				l.fill(s.now[l.to], in[l.input], at, n)
			}
		}
		for _, st := range p.stores {
			if st.direct && !p.loaded(st.from) {
				size := st.as.Size()
				s.now[st.from] = out[st.output][at*size : (at+n)*size]
			}
		}
		for i := range p.code {
			c := &p.code[i]
			if s.now[c.to] == nil {
				s.now[c.to] = s.room(c.to)
			}
			for j, r := range c.from {
				s.operands[i][j] = s.now[r]
			}
			c.run(s.now[c.to], s.operands[i], n, at)
		}
		for i := range p.stores {
			st := &p.stores[i]
			st.put(out[st.output], s.now[st.from], at, n)
		}
	}
}

func (p *program) loaded(register int) bool {
	return slices.ContainsFunc(p.loads, func(l load) bool { return l.to == register })
}

// fill loads n elements, of which the first is number at.
func (l *load) fill(to register, from []byte, at, n int) {
	if half(l.from) {
		h := make([]uint16, n)
		fillBlock(h, view[uint16](from), l.w, at)
		widen(l.from, view[float32](to), h)
		return
	}
	switch l.from.Size() {
	case 1:
		fillBlock(to[:n], from, l.w, at)
	case 4:
		fillBlock(view[uint32](to)[:n], view[uint32](from), l.w, at)
	case 2:
		fillBlock(view[uint16](to)[:n], view[uint16](from), l.w, at)
	default:
		fillBlock(view[uint64](to)[:n], view[uint64](from), l.w, at)
	}
}

func fillBlock[T any](to, from []T, w walk, at int) {
	around, inner, steps := w.outer()
	c := around.at(at / inner)
	skip := at % inner
	for len(to) > 0 {
		n := min(inner-skip, len(to))
		src := c.offsets[0] + skip*steps[0]
		switch steps[0] {
		case 0:
			v := from[src]
			for i := range to[:n] {
				to[i] = v
			}
		case 1:
			copy(to[:n], from[src:])
		default:
			for i := range to[:n] {
				to[i] = from[src]
				src += steps[0]
			}
		}
		to = to[n:]
		skip = 0
		c.next()
	}
}

func (s *store) put(to []byte, from register, at, n int) {
	if half(s.as) {
		narrow(s.as, view[uint16](to)[at:at+n], view[float32](from)[:n])
		return
	}
	size := s.as.Size()
	dst := to[at*size : (at+n)*size]
	if &dst[0] != &from[0] {
		copy(dst, from)
	}
}

// bytesOf is memory that is aligned for every type.
func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}
