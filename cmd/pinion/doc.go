// Command pinion feeds datasets to a GPU, finds the best settings for that, and
// measures what the machine can do. Run "pinion help" for its commands.
//
// # JSON documents
//
// With --json a command prints one document on standard output, and nothing
// else; pinion top prints one in a line, every time. All documents use one vocabulary.
//
// Every document begins with where it comes from:
//
//	measured_at   time, RFC 3339, UTC
//	version       of Pinion's module, or "(devel)"
//	commit        of Pinion, or "unknown"; "… with changes" if the tree had some
//	platform      system, architecture and version of Go
//	cpu, cpus     model of the processor, and how many of them
//	device        that was used, such as "cuda:0"; left out if there was none
//	device_name   the vendor's name for it
//
// Keys are in snake_case and end in their unit:
//
//	…_bytes       bytes
//	…_seconds     seconds, also where they are few nanoseconds
//	…_gb_per_s    10^9 bytes a second
//	samples_per_s samples a second
//	…_fraction    part of a whole, from 0 to 1
//	…_ratio       quotient, which may exceed 1
//	…_reason      why something is not as asked for, or not at its best
//	…_file        a file that was written; …_folder likewise
//
// A plural noun is a count (samples, workers) or a list; any other key has the same
// type everywhere. The median has the bare key, min_… and max_… are the extremes,
// and p50, p99 stand before the unit; mean_… is of calls back to back. What is not
// known is left out or null; a list without entries is there.
//
// Some keys are shared by several commands:
//
//	limit                what the pipeline cannot be faster than: the name of a
//	                     stage, "device", "overhead" or "latency"
//	stages               of the pipeline: stage, where ("worker" or "device"),
//	                     seconds, seconds_per_sample, busy_fraction
//	device_wait_fraction part of the time in which the device had no batch
//	h2d_bytes            copied from host to device; h2d_gb_per_s is the rate
//	failed_samples       samples that could not be read; replaced_samples of
//	                     them were replaced, the others were skipped
//	failures             one row for each: epoch, index, sample, error
//	path                 from a file to the device: "cached", "direct", "mapped"
//	                     or "cufile", or several of them, as in "cached+direct";
//	                     cached_bytes, direct_bytes … say how much took which
//	not_available        what could not be used or measured: name, reason
//	ranks                that worked together; launcher is who started them, left
//	                     out where they are goroutines, and hosts how many they
//	                     were on
package main
