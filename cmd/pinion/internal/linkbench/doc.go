// Package linkbench measures the paths between host and device memory: what
// `pinion bench link` runs.
//
// Every path is checked for correct bytes first, which also warms it up. Then
// the paths are timed in turn, one repeat of each after the other, so that a
// machine that drifts drifts for all of them; the median, the smallest and the
// largest of the repeats are reported. Making the device's context is not
// speed of any path and stands on its own.
package linkbench
