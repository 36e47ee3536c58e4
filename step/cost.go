package step

// Speed is what a device can do, for estimates of how long a task takes.
type Speed struct {
	BytesPerSecond float64 // of memory. Default: 10e9, a processor's
	OpsPerSecond   float64 // additions outside of matrix products. Default: 1e9
	Multiplies     float64 // multiplications, with an addition each, a second in matrix products and convolutions. Default: 20e9
	Launch         float64 // seconds that any task takes. Default: 2e-6
}

// Estimate is how long a task takes: as long as its memory traffic or its arithmetic,
// whichever is longer, and a launch.
func (s Speed) Estimate(t *Task) float64 {
	orElse := func(v, d float64) float64 {
		if v > 0 {
			return v
		}
		return d
	}
	var bytes, work, multiplies float64
	for _, list := range [][]Value{t.Inputs, t.Outputs} {
		for _, v := range list {
			bytes += float64(v.Shape().Bytes())
		}
	}
	for _, n := range t.Nodes {
		size := float64(n.Shapes[len(n.Shapes)-1].Size())
		switch n.Op.Class() {
		case Contraction:
			multiplies += size * float64(depthOf(n))
		case Compound:
			a, sizes := AttentionOf(n)
			multiplies += sizes.products(n.Op, a.Causal)
		case Reduction, Scatter:
			work += ops[n.Op].work * float64(n.Inputs[0].Shape().Size())
		case Window:
			window := 1
			for _, d := range n.Attr.(*Windows).Dims {
				window *= d
			}
			work += ops[n.Op].work * size * float64(window)
		default:
			work += ops[n.Op].work * size
		}
	}
	return orElse(s.Launch, 2e-6) + max(bytes/orElse(s.BytesPerSecond, 10e9), work/orElse(s.OpsPerSecond, 1e9), multiplies/orElse(s.Multiplies, 20e9))
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
