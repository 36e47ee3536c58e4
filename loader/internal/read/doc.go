// Package read fills slabs with samples. Workers take the samples of batches
// from a queue, each with readers of its own, and read them straight into their
// places, with a time limit where one is asked for.
package read
