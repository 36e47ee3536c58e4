// Package graph is the operations of a step, from which package step makes something that
// runs.
//
//	g := graph.New("axpy")
//	a, _ := g.Parameter("a", graph.MakeShape(dtype.F32))
//	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 1000))
//	ax, err := g.Binary(graph.Mul, a, x)
//	…
//	err = g.SetOutputs(ax)
//
// A [Graph] is in static single assignment form: methods add an operation and return its
// result, a [Value] with a type and a shape that never changes. They check operands at
// once, and fail with [ErrArgument] and the shapes. What operations mean is what
// StableHLO's do, and where there is more to say the method says it.
//
// A table in op.go says of each [Op] which operands and types it takes, and what an
// element costs, roughly. [Optimize] leaves out what nothing needs, and what is there
// twice.
package graph
