// Package slab is the host memory that batches are read into: what lies where
// in it, how it is taken, pinned or not, and how what is not pinned is copied.
//
// A slab holds one batch: a block of places for the samples, one for each
// target, and a tail with labels, lengths and tables. All of it crosses the
// link in one copy, so the same offsets hold in the device's memory.
package slab
