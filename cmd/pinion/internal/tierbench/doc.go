// Package tierbench is the measuring part of `pinion bench tier`: working sets around
// the size of a budget of device memory, used in turn, at random, and by popularity,
// held by a tier.Store and copied in anew for each use. Beside them stands the floor:
// the bytes that even the best schedule has to move, at the rate of the link.
package tierbench
