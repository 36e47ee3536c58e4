// Package collbench is the measuring part of `pinion bench collectives`: what ranks do
// together, over sizes, counted as nccl-tests counts.
//
//	report, err := collbench.Run(ctx, ranks, options)      // on every rank
//	report, err := collbench.Local(ctx, dev, 2, options)   // goroutines as ranks
//
// # What is counted
//
// With n ranks and a size of S bytes:
//
//	operation       S is                       bus bandwidth / algorithm bandwidth
//	all-reduce      what each rank has         2(n-1)/n
//	reduce-scatter  what each rank sends       (n-1)/n
//	all-gather      what each rank receives    (n-1)/n
//	broadcast       what rank 0 has            1
//	send-receive    what each rank sends       1
//	all-to-all      what each rank sends       (n-1)/n
//
// The algorithm bandwidth is S over the time of a call. The bus bandwidth is what each
// rank's link has to carry for that, so it can be compared with the hardware's, whatever
// the operation and the number of ranks. In send-receive, each rank sends to the next
// one and receives from the one before, the last and the first being neighbours. Sizes of
// reduce-scatter, all-gather and all-to-all are rounded up to a whole number of elements
// for each rank.
//
// Out of place, an operation reads one buffer and writes another; in place, all-reduce
// reads what it overwrites, and the smaller buffer of reduce-scatter and all-gather is
// this rank's share of the larger one. Broadcast has one buffer, so it is in place alone.
// Send-receive and all-to-all are out of place alone.
//
// The time of a call is the mean over calls back to back, which begin behind a barrier
// and end when the last one is done. For small sizes there is a second figure: the median
// of calls of which each is waited for. Of all ranks, the slowest counts.
package collbench
