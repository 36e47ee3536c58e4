// Package workload has orders in which arrays are used, by their numbers, and counts
// what schedules bring in of them where not all fit: the best one, which knows the
// order, and the one that drops what was used least recently.
//
//	order := workload.ByRank(random, 128, 1024, 1)
//	least := workload.LeastMisses(order, 64, 1, 10) // of ten rounds behind a first one, with room for 64
package workload
