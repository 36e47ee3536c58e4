// Package linkbench measures the paths between host and device memory: what
// `pinion bench link` and `pinion bench --report` run.
//
// Every path is checked for correct bytes first, which also warms it up. Then
// the paths are timed in turn by package internal/measure; the median, the least
// and the most of the repeats are reported. Opening the device is not part of
// any path and is reported on its own.
//
// With Options.Curves every path is measured again over sizes from 1 KiB to
// Options.Size, and so is the path that an engine of package transfer chooses
// by itself for pageable memory. A copy of 1 KiB takes microseconds, so small
// copies are timed many at once, after one that is not timed. Half of the copies
// of pageable memory are of bytes that were copied a moment before, the others of
// bytes that no cache has: programs have both. Report.Choice compares the
// engine's choice with the better of the paths that it could have taken.
//
// A run takes one buffer of pageable, one of pinned and one of device memory,
// and checks first that there is room for them.
package linkbench
