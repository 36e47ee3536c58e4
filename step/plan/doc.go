// Package plan plans the memory of a step: which values stay on the device, which are
// dropped and computed again, which travel to the host and come back, and where each
// lies. It knows operations by their times and values by their sizes, and calls no
// device: a compiler of steps uses it, and anybody who has such a list.
//
//	p, err := plan.Make(graph, plan.Options{
//		Budget: 13 << 30,            // bytes of device memory
//		Out:    50e9, Back: 50e9,    // bytes a second that the link carries beside the computation
//		Latency: 5e-6,               // seconds of each copy besides
//	})
//	fmt.Print(p)
//	for _, run := range p.Runs { … } // what runs, what is fetched before it, what it waits for
//
// [Plan.SVG] draws a plan: the bytes in use over the step by what becomes of them.
//
// # What a plan decides
//
// Between two uses of a value ([Graph] says which operations read and write it), the
// value is kept, or it is dropped and its operation runs again before the next use, or
// it is copied to the host as soon as it was written and fetched back just before it is
// wanted. What has to be there to compute it again and is not is computed again too,
// and stays if it is wanted later: so segments of a chain come back as a whole, as with
// checkpoints, but each operation by itself decides, and a normalisation or a cast that
// takes nothing is dropped long before a product of matrices.
//
// The first time, operations run in the order that they have. Copies of each direction
// follow one another beside the computation. Memory of what is sent is given back when
// its copy is done, and the computation waits for that only if it needs the memory.
//
// # From a graph of tensors to a [Graph]
//
//   - A view (a reshape, a slice that is not copied) is the value that it looks at: its
//     readers read that value, and there is no operation.
//   - What the caller keeps, such as weights that are only read, is Resident: its memory
//     is the caller's and outside the block. So is an output that the caller wants in
//     memory of its own: a resident value that an operation writes.
//   - A donated input whose new value has the same size is Resident, and the new value
//     lists it in Over: it is written in place, in the caller's memory.
//   - An input that is copied into the block, such as a batch, is a value that no
//     operation writes: it gives its memory back after it was read last.
//   - A value that may be written over an operand lists that in Over. The plan decides
//     for each run: an operand that is kept for later is not written over.
//
// # How it is found
//
// Where there are few decisions, all are tried. Otherwise a plan begins with what is
// stored while most is in use: with a price for a byte, the cheapest choice of values to
// store, and of operations to run again with all that they read, is a minimum cut. At the
// price at which as much is stored as there is room for, this is nearly the plan. It is
// simulated, and values are evicted where there is still too much, each time the one that
// costs least time for what it helps: after each eviction, or in a graph of thousands of
// operations after each part of the excess, the whole step is simulated again. In small
// graphs, and where this fits nowhere, plans also begin with nothing, with several prices
// of a byte on the link. Then decisions are taken back that there is room for, or
// exchanged for others, and of a small graph all changes of one and two are tried, until
// the step is as short as any can be: [Plan].Least is a time that no plan is below of
// those that decide as described above, by the same relaxation. For a budget that is hard to meet, values are also evicted for one
// target after the other, each lower than the one before; the least that this comes to is
// what an [ImpossibleError] names. A step of 15,000 operations is planned in seconds.
//
// A chain is a graph in which every value is computed from the one before it, as the
// layers of a network without branches. There a dynamic program finds the shortest plan
// of those that run an operation at most twice and use no link: it is optimal among
// them, but for the rounding of memory in chains of more than a hundred layers or so.
//
// [Place] gives each stay of a value an offset in one block of memory.
//
// The idea of choosing by simulation what is computed again and what travels is that of
// POFO (Beaumont et al., NeurIPS 2021); decisions for each use of a value are those of
// Checkmate (Jain et al., MLSys 2020), which solves an integer program.
package plan
