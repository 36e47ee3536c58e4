package graph

// Work is what it takes to compute an operation: operations of the processor, in additions,
// and products that are added up.
func (n *Node) Work() (additions, products float64) {
	size := float64(n.Shapes[len(n.Shapes)-1].Size())
	switch n.Op.Class() {
	case Contraction:
		return 0, size * float64(depthOf(n))
	case Collective:
		return 0, 0 // others do it, beside the computation
	case Compound:
		a, sizes := AttentionOf(n)
		return 0, sizes.products(n.Op, a.Causal)
	case Reduction, Scatter:
		return ops[n.Op].work * float64(n.Inputs[0].Shape().Size()), 0
	case Window:
		window := 1
		for _, d := range n.Attr.(*Windows).Dims {
			window *= d
		}
		return ops[n.Op].work * size * float64(window), 0
	}
	return ops[n.Op].work * size, 0
}

// depthOf is how many products each element of a contraction is the sum of.
func depthOf(n *Node) int {
	switch a := n.Attr.(type) {
	case *DotAxes:
		depth := 1
		for _, axis := range a.Contracted[0] {
			depth *= n.Inputs[0].Shape().Dims[axis]
		}
		return depth
	case *ConvAxes:
		k := n.Inputs[1].Shape()
		return k.Size() / max(k.Dims[a.KernelOutput], 1)
	}
	return 1
}
