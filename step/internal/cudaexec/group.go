package cudaexec

import (
	"maps"
	"slices"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
)

// former makes tasks of a graph: it decides what is computed together.
type former struct {
	views
	live   map[*graph.Node]bool
	users  map[graph.Value][]*graph.Node // of a base, those that compute with it
	memory map[graph.Value]bool          // bases that lie in memory
	output map[graph.Value]bool          // bases of the graph's outputs
	cost   map[graph.Value]work          // of what does not lie in memory
	groups []*group
	of     map[graph.Value]*group // that makes a base
}

// work is what it takes to compute an element where it is wanted.
type work struct {
	ops   float64
	moved bool                 // elements come from other places, too
	reads map[graph.Value]bool // bases in memory
}

// group is what one task computes.
type group struct {
	values []graph.Value // that lie in memory, or would
	access.Space
}

// Fuse returns what the executor would rather run than each operation by itself, in
// an order in which they can run: operations that are fused, with reductions of rows
// among them. All results that tasks read, and outputs, are written by a task; views
// ([graph.View]) are not. A task may compute again what is cheap.
func Fuse(g *graph.Graph) ([]*step.Task, error) {
	f := &former{live: map[*graph.Node]bool{}, users: map[graph.Value][]*graph.Node{}, memory: map[graph.Value]bool{},
		output: map[graph.Value]bool{}, cost: map[graph.Value]work{}, of: map[graph.Value]*group{}}
	f.analyse(g)
	if err := f.form(g); err != nil {
		return nil, err
	}
	var tasks []*step.Task
	for _, g := range f.ordered() {
		tasks = append(tasks, f.task(g))
	}
	return tasks, nil
}

// task is what a group does.
func (c *former) task(g *group) *step.Task {
	t := &step.Task{}
	var add func(v graph.Value)
	nodes, inputs := map[*graph.Node]bool{}, map[graph.Value]bool{}
	add = func(v graph.Value) {
		n := v.Node()
		if nodes[n] {
			return
		}
		if n.Op == graph.Constant || n.Op == graph.Parameter || c.memory[v] && !slices.Contains(g.values, v) {
			inputs[v] = true
			return
		}
		nodes[n] = true
		for j, x := range n.Inputs {
			for folded := c.Operand(n, j); x != folded; x = x.Node().Inputs[access.OperandOf(x)] {
				nodes[x.Node()] = true
			}
			for b := c.Base(x); x != b; x = x.Node().Inputs[access.OperandOf(x)] {
				nodes[x.Node()] = true
			}
			add(x)
		}
	}
	for _, v := range g.values {
		add(v)
		if c.leaves(v, g) {
			t.Outputs = append(t.Outputs, v)
		}
	}
	for n := range nodes {
		t.Nodes = append(t.Nodes, n)
	}
	slices.SortFunc(t.Nodes, func(a, b *graph.Node) int { return a.ID() - b.ID() })
	t.Inputs = c.sorted(inputs)
	return t
}

// analyse finds what is computed, and what of it has to lie in memory.
func (c *former) analyse(g *graph.Graph) {
	nodes := g.Nodes()
	for _, v := range g.Outputs() {
		b := c.use(v)
		c.output[b], c.live[b.Node()] = true, true
	}
	for _, n := range slices.Backward(nodes) {
		if !c.live[n] {
			continue
		}
		for j := range n.Inputs {
			b := c.use(c.Operand(n, j))
			c.live[b.Node()] = true
			if !slices.Contains(c.users[b], n) {
				c.users[b] = append(c.users[b], n)
			}
			if n.Op == graph.DotGeneral && !c.inlinesOperand(n, j) || slices.Contains(access.Wants(n), j) {
				c.memory[b] = true
			}
		}
	}
	for _, n := range nodes {
		if !c.live[n] {
			continue
		}
		for i := range n.Shapes {
			if v := n.Value(i); c.Base(v) == v {
				c.place(v)
			}
		}
	}
}

// use is base, of a value that is used. A view as elements of another size is one of
// memory.
func (c *former) use(v graph.Value) graph.Value {
	b := c.Base(v)
	if b.Shape().Type.Size() != v.Shape().Type.Size() {
		c.memory[b] = true
	}
	return b
}

// place decides whether a value lies in memory. Its operands are decided.
func (c *former) place(v graph.Value) {
	n := v.Node()
	if n.Op == graph.Constant {
		if _, ok := c.Literal(v); !ok || c.output[v] {
			c.memory[v] = true
		}
		return
	}
	if !access.Inlines(n) || c.output[v] {
		c.memory[v] = true
	}
	w := c.sum(n)
	if len(w.reads) > mostPointers-2 { // more than a kernel takes
		for _, x := range n.Inputs {
			if b := c.Base(x); len(c.cost[b].reads) > 1 {
				c.memory[b] = true
				delete(c.cost, b)
			}
		}
		w = c.sum(n)
	}
	if !c.memory[v] {
		c.memory[v] = c.worthKeeping(v, w)
	}
	if !c.memory[v] {
		c.cost[v] = w
	}
}

// sum is what it takes to compute an element of a node's result.
func (c *former) sum(n *graph.Node) work {
	w := work{ops: 1, reads: map[graph.Value]bool{}}
	switch n.Op {
	case graph.BroadcastInDim, graph.Iota, graph.Identity:
		w.ops = 0
	case graph.Exp, graph.Expm1, graph.Log, graph.Log1p, graph.Erf, graph.Tanh, graph.Sin, graph.Cos, graph.Logistic, graph.Pow, graph.Atan2:
		w.ops = 15
	case graph.Div, graph.Rem, graph.Sqrt, graph.Rsqrt:
		w.ops = 5
	case graph.RNGBitGenerator:
		w.ops = 60
	}
	w.moved = n.Op.Class() == graph.Movement && n.Op != graph.BroadcastInDim
	for _, x := range n.Inputs {
		b := c.Base(x)
		if _, ok := c.Literal(b); ok {
			continue
		}
		if c.memory[b] {
			w.reads[b] = true
			continue
		}
		w.ops += c.cost[b].ops
		w.moved = w.moved || c.cost[b].moved
		for r := range c.cost[b].reads {
			w.reads[r] = true
		}
	}
	return w
}

// worthKeeping says whether a value should be computed once, instead of by everyone who
// needs it.
func (c *former) worthKeeping(v graph.Value, w work) bool {
	users := c.users[v]
	if (w.ops > 1 || len(w.reads) > 1) && slices.ContainsFunc(users, func(u *graph.Node) bool { return u.Op == graph.DotGeneral }) {
		return true // it would be computed again for many columns
	}
	if w.ops > 500 || len(w.reads) > mostPointers/2 {
		return true
	}
	if len(w.reads) == 0 && w.ops < 30 {
		return false
	}
	if len(users) > 1 && (w.ops > 4 || len(w.reads) > 1) && !asCheap(v, w) {
		return true
	}
	for _, u := range users {
		for i := range u.Shapes {
			if u.Shapes[i].Size() > 2*v.Shape().Size() && w.ops > 3 && u.Op != graph.Concatenate && u.Op != graph.Pad && u.Op != graph.DynamicUpdateSlice {
				return true
			}
		}
	}
	return false
}

// asCheap says whether it takes no more memory traffic to compute a value again than to
// read it, such as a float32 of numbers of 16 bits and of some for each channel.
func asCheap(v graph.Value, w work) bool {
	var bytes int64
	for r := range w.reads {
		bytes += r.Shape().Bytes()
	}
	s := v.Shape()
	return w.ops <= 24 && !w.moved && bytes <= s.Bytes()+s.Bytes()/16
}

// reads are the bases in memory that a value is made of.
func (c *former) reads(v graph.Value) map[graph.Value]bool {
	n := v.Node()
	if n.Op == graph.DotGeneral || n.Op == graph.ConvGeneral {
		all := map[graph.Value]bool{}
		for j := range n.Inputs {
			b := c.Base(c.Operand(n, j))
			if c.memory[b] || !c.inlinesOperand(n, j) {
				all[b] = true
				continue
			}
			maps.Copy(all, c.cost[b].reads)
		}
		return all
	}
	return c.sum(n).reads
}

// form makes groups of everything that lies in memory and is computed.
func (c *former) form(g *graph.Graph) error {
	for _, n := range g.Nodes() {
		if !c.live[n] || n.Op == graph.Parameter || n.Op == graph.Constant {
			continue
		}
		var values []graph.Value
		for i := range n.Shapes {
			if v := n.Value(i); c.Base(v) == v && c.memory[v] && (v.Shape().Size() > 0 || c.output[v]) {
				values = append(values, v)
			}
		}
		if class := n.Op.Class(); (class == graph.Compound || class == graph.Collective) && len(values) > 0 { // one task makes all
			g := &group{values: values, Space: c.spaceOf(values[0])}
			for _, v := range values {
				c.of[v] = g
			}
			c.groups = append(c.groups, g)
			continue
		}
		for _, v := range values {
			if err := c.join(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// join puts a value into a group of its own, and that together with groups whose values
// it reads, where one kernel can compute all.
func (c *former) join(v graph.Value) error {
	one := &group{values: []graph.Value{v}, Space: c.spaceOf(v)}
	c.of[v] = one
	c.groups = append(c.groups, one)
	if _, err := compile(c.task(one)); err != nil {
		return err
	}
	reads, direct := c.sorted(c.reads(v)), c.direct(v)
	slices.Reverse(reads)
	for _, r := range reads {
		if other := c.of[r]; other != nil && other != c.of[v] && direct[r] {
			c.unite(other, c.of[v])
		}
	}
	if c.of[v].Kind == access.Columns { // others that go over the same elements
		large := func(v, r graph.Value) bool { return r.Shape().Size() >= v.Node().Inputs[0].Shape().Size() }
		for _, other := range slices.Clone(c.groups) {
			w := other.values[0]
			if other.Kind != access.Columns || c.of[w] != other || c.of[v] == other {
				continue
			}
			for r := range c.reads(w) {
				if large(w, r) && c.reads(v)[r] {
					c.unite(other, c.of[v])
					break
				}
			}
		}
	}
	return nil
}

// direct are the bases in memory that a value is made of, but for those that it reads
// behind an optimization barrier: what is computed of them is to be computed when it is
// wanted, and not together with them.
func (c *former) direct(v graph.Value) map[graph.Value]bool {
	list, seen := map[graph.Value]bool{}, map[graph.Value]bool{}
	var visit func(n *graph.Node)
	visit = func(n *graph.Node) {
		for _, x := range n.Inputs {
			barred := false
			for access.IsView(x) && !c.Given[x] {
				barred = barred || x.Node().Op == graph.OptimizationBarrier
				x = x.Node().Inputs[access.OperandOf(x)]
			}
			if barred || seen[x] {
				continue
			}
			seen[x] = true
			if c.memory[x] {
				list[x] = true
			} else {
				visit(x.Node())
			}
		}
	}
	visit(v.Node())
	return list
}

// sorted is a set of values in the order of the graph.
func (c *former) sorted(set map[graph.Value]bool) []graph.Value {
	var list []graph.Value
	for v := range set {
		list = append(list, v)
	}
	slices.SortFunc(list, order)
	return list
}

func order(a, b graph.Value) int {
	if d := a.Node().ID() - b.Node().ID(); d != 0 {
		return d
	}
	return a.Index() - b.Index()
}

// unite makes one group of two, if there can be one.
func (c *former) unite(a, b *group) {
	both, ok := c.together(a.Space, b.Space)
	if !ok || c.between(a, b) || c.between(b, a) {
		return
	}
	u := &group{values: append(slices.Clone(a.values), b.values...), Space: both}
	slices.SortFunc(u.values, order)
	for _, v := range u.values {
		c.of[v] = u
	}
	if _, err := compile(c.task(u)); err != nil {
		for _, v := range a.values {
			c.of[v] = a
		}
		for _, v := range b.values {
			c.of[v] = b
		}
		return
	}
	c.groups = slices.DeleteFunc(c.groups, func(g *group) bool { return g == a || g == b })
	c.groups = append(c.groups, u)
}

// needs are the groups that a group reads values of.
func (c *former) needs(g *group) []*group {
	var list []*group
	for _, v := range g.values {
		for r := range c.reads(v) {
			if o := c.of[r]; o != nil && o != g && !slices.Contains(list, o) {
				list = append(list, o)
			}
		}
	}
	return list
}

// between says whether to reads something that is made of what from makes, by way of
// other groups.
func (c *former) between(from, to *group) bool {
	seen := map[*group]bool{from: true, to: true}
	var visit func(g *group) bool
	visit = func(g *group) bool {
		if g == from {
			return true
		}
		if seen[g] {
			return false
		}
		seen[g] = true
		return slices.ContainsFunc(c.needs(g), visit)
	}
	for _, g := range c.needs(to) {
		if g != from && visit(g) {
			return true
		}
	}
	return false
}

// ordered are the groups, each behind those that it reads values of.
func (c *former) ordered() []*group {
	groups := slices.Clone(c.groups)
	slices.SortFunc(groups, func(a, b *group) int { return order(a.values[0], b.values[0]) })
	var list []*group
	done := map[*group]bool{}
	var visit func(g *group)
	visit = func(g *group) {
		if done[g] {
			return
		}
		done[g] = true
		needs := c.needs(g)
		slices.SortFunc(needs, func(a, b *group) int { return order(a.values[0], b.values[0]) })
		for _, n := range needs {
			visit(n)
		}
		list = append(list, g)
	}
	for _, g := range groups {
		visit(g)
	}
	return list
}

// leaves says whether a value of a group is needed outside of it.
func (c *former) leaves(v graph.Value, g *group) bool {
	if c.output[v] {
		return true
	}
	return c.neededOutside(v, g, map[graph.Value]bool{})
}

func (c *former) neededOutside(v graph.Value, g *group, seen map[graph.Value]bool) bool {
	if seen[v] {
		return false
	}
	seen[v] = true
	for _, u := range c.users[v] {
		for i := range u.Shapes {
			r := u.Value(i)
			switch {
			case c.memory[r] && c.of[r] == nil && r.Shape().Size() > 0:
				return true // it comes later
			case c.memory[r]:
				if c.of[r] != g && r.Shape().Size() > 0 {
					return true
				}
			case c.neededOutside(r, g, seen):
				return true
			}
		}
	}
	return false
}
