// Package leaks tells leaks from caches while a program runs: device memory, pinned
// memory, arrays of tiers and goroutines that each step leaves behind, and the stacks
// that are responsible.
//
//	w := leaks.Start(leaks.Options{})
//	defer w.Stop()
//	for batch := range batches {
//		train(batch)
//		w.Step()
//	}
//	fmt.Print(w.Report())
//
// monitor.Track does so for a function. A step is whatever the program repeats: a
// training step, a request, or a second of a server.
//
// # What is a leak
//
// Items are blocks, buffers, arrays, leases of arrays, and goroutines. Those of one kind, device,
// purpose, name and stack are a site, which is judged by the age of its items. What
// leaks has items of every age. Caches that are full, queues, sawtooth use and
// one-time warm-ups have not, however much memory they take and whenever they took it.
// A cache that still fills during the steps that were watched looks like a leak: let
// the program take more steps.
//
// The first quarter of the steps counts as warm-up. 16 steps are the fewest that say
// anything, and a site must have left 9 items or more. Something that leaks once in a
// hundred steps needs some thousands of them.
//
// Memory that pools keep for reuse is not leaked either. A [Report] lists it apart.
//
// # Cost
//
// A program that uses no watch pays one atomic load for each allocation. While a watch
// runs, each allocation notes its stack, which takes about a microsecond, and
// the watch looks at everything there is after each of the first 32 steps, and then
// less and less often: 16 times while the steps double. A look at 10,000 blocks took
// 12 ms on a busy machine. It holds their pool up, and stops all goroutines for a
// moment to list them.
package leaks
