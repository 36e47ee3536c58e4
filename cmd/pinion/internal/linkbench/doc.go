// Package linkbench measures the paths between host and device memory: what
// `pinion bench link` and `pinion bench --report` run.
//
// Every path is checked for correct bytes first, which also warms it up. Then
// the paths are timed in turn, one repeat of each after the other, so that a
// machine that drifts drifts for all of them; the median, the smallest and the
// largest of the repeats are reported. Making the device's context is not
// speed of any path and stands on its own.
//
// With Options.Curves every path is measured again over sizes from 1 KiB to
// Options.Size, and so is the path that an engine of package transfer chooses
// by itself for pageable memory. A copy of 1 KiB takes microseconds, so small
// copies are timed many at once, behind one that is not timed. Half of the
// copies of pageable memory are of bytes that were copied a moment before, the
// others of bytes that no cache has: programs have both. Report.Choice sets the
// engine's choice beside the better one of the paths that it could have taken.
package linkbench
