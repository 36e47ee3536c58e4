// Package step is a whole step of training or inference as a graph: operations with
// checked types and shapes, from which passes, a memory plan and an executor make
// something that runs within a budget of device memory.
//
//	g := graph.New("axpy")
//	a, _ := g.Parameter("a", graph.MakeShape(dtype.F32))
//	x, _ := g.Parameter("x", graph.MakeShape(dtype.F32, 1000))
//	y, _ := g.Parameter("y", graph.MakeShape(dtype.F32, 1000))
//	ax, _ := g.Binary(graph.Mul, a, x)
//	sum, err := g.Binary(graph.Add, ax, y)
//	…
//	err = g.SetOutputs(sum)
//
//	x, err := step.Compile(g, exec, step.Options{Budget: 1 << 30}) // exec is of package host, for one
//	out, err := x.Run(ctx, []*step.Tensor{…}, nil)
//
// There is no automatic differentiation here and there are no layers: GoMLX has those,
// and the module gomlx runs its graphs on this package.
//
// # Graphs
//
// A graph is in static single assignment form: each operation has its results, and
// they never change. Constructors check operands at once, and fail with ErrArgument and
// the shapes. What operations mean is what StableHLO's do, and where there is more to
// say the constructor says it. Composite operations, such as batch normalisation, add
// several.
//
// # Executables
//
// Compile runs passes over a copy of the graph: what is not needed goes, what is computed
// twice is computed once, what is constant is computed now, products take their operands
// as they were before they were transposed, and element-wise operations that follow one
// another become one task. An Executor makes a kernel of each task. Package plan decides
// what of the values between tasks is kept, computed again, or sent to the host and
// fetched back, and gives each a place in one block of memory. Results are the same bits
// whatever the budget.
//
// Run returns when the results are there; Start queues a run behind others, so that the device
// does not wait for the processor between them.
//
// An executable owns that block; a Memory makes the tensors that go in and out, which
// the caller frees, or donates to a run.
package step
