package main

import (
	"fmt"
	"io"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/vram/replay"
)

// replayOutput is the JSON document of pinion replay.
type replayOutput struct {
	provenance.Record
	Device        string `json:"device"`
	Name          string `json:"name"`
	Trace         string `json:"trace"`
	Format        string `json:"format"`
	Allocator     string `json:"allocator"`
	CapacityBytes int64  `json:"capacity_bytes"`
	ChunkBytes    int64  `json:"chunk_bytes,omitempty"` // 0: no chunks

	Events            int64    `json:"events"`
	PeakLiveBytes     int64    `json:"peak_live_bytes"`
	PeakReservedBytes int64    `json:"peak_reserved_bytes"`
	Fragmentation     float64  `json:"fragmentation"`
	OOMs              int64    `json:"ooms"`
	DriverCalls       int64    `json:"driver_calls"`
	AllocP50          int64    `json:"alloc_ns_p50"`
	AllocP99          int64    `json:"alloc_ns_p99"`
	FreeP50           int64    `json:"free_ns_p50"`
	Retries           int64    `json:"retries"`
	PeakTraceBytes    int64    `json:"peak_trace_bytes"`
	LeastOOMBytes     int64    `json:"least_oom_bytes"`
	LeastOOMShare     *float64 `json:"least_oom_share"` // of the capacity; null: never out of memory
	FailedInTrace     int64    `json:"failed_in_trace"`
	FailedGranted     int64    `json:"failed_granted"`
	Seconds           float64  `json:"seconds"`
}

func newReplayOutput(dev device.Device, allocator string, in *traceInput, capacity int64, r *replay.Result) *replayOutput {
	info := dev.Info()
	out := &replayOutput{
		Record: provenance.Now(),
		Device: info.ID, Name: info.Name, Trace: in.path, Format: string(in.Format()),
		Allocator: allocator, CapacityBytes: capacity,
		Events: r.Events, PeakLiveBytes: r.PeakLiveBytes, PeakReservedBytes: r.PeakReservedBytes,
		Fragmentation: r.Fragmentation(), OOMs: r.OOMs, DriverCalls: r.DriverCalls,
		AllocP50: r.AllocP50.Nanoseconds(), AllocP99: r.AllocP99.Nanoseconds(), FreeP50: r.FreeP50.Nanoseconds(),
		Retries: r.Retries, PeakTraceBytes: r.PeakTraceBytes, LeastOOMBytes: r.LeastOOMBytes,
		FailedInTrace: r.FailedInTrace, FailedGranted: r.FailedGranted, Seconds: r.Elapsed.Seconds(),
	}
	if r.OOMs > 0 && capacity > 0 {
		share := float64(r.LeastOOMBytes) / float64(capacity)
		out.LeastOOMShare = &share
	}
	return out
}

func (o *replayOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s\n", o.Device, o.Name)
	fmt.Fprintf(w, "%s (%s) on %s with %s", o.Trace, o.Format, o.Allocator, amount(o.CapacityBytes))
	if o.ChunkBytes > 0 {
		fmt.Fprintf(w, " in chunks of %s", amount(o.ChunkBytes))
	}
	fmt.Fprintf(w, ", %s\n\n", seconds(o.Seconds))

	t := newTable(">EVENTS", ">PEAK LIVE", ">PEAK RESERVED", ">FRAGMENTATION", ">OOMS", ">DRIVER CALLS", ">ALLOC P50", ">ALLOC P99", ">FREE P50")
	t.add(fmt.Sprint(o.Events), amount(o.PeakLiveBytes), amount(o.PeakReservedBytes), fmt.Sprintf("%.3f", o.Fragmentation),
		fmt.Sprint(o.OOMs), fmt.Sprint(o.DriverCalls), nanoseconds(o.AllocP50), nanoseconds(o.AllocP99), nanoseconds(o.FreeP50))
	t.print(w)

	if o.OOMs > 0 {
		fmt.Fprintf(w, "\nOut of memory %s. The least that was too much, live and asked for: %s",
			counted(o.OOMs, "time", "times"), amount(o.LeastOOMBytes))
		if o.LeastOOMShare != nil {
			fmt.Fprintf(w, ", %s of the capacity", percent(*o.LeastOOMShare))
		}
		fmt.Fprintln(w, ".")
	}
	if o.PeakTraceBytes > o.CapacityBytes {
		fmt.Fprintf(w, "\nThe trace needs %s at its peak: more than the capacity. See --capacity.\n", amount(o.PeakTraceBytes))
	}
	if o.FailedInTrace > 0 {
		fmt.Fprintf(w, "\n%s had failed when the trace was recorded; %d succeeded here.\n",
			counted(o.FailedInTrace, "allocation", "allocations"), o.FailedGranted)
	}
	if o.Allocator != "pinion" {
		fmt.Fprintln(w, "\nReserved counts what is live: what the driver rounds up or keeps is not seen.")
	}
}

// amount prints bytes with three significant digits.
func amount(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	for value >= 999.5 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	return digits(value) + " " + units[0]
}

// nanoseconds prints a time whose nanoseconds matter while it is short.
func nanoseconds(ns int64) string {
	if ns < 1000 {
		return fmt.Sprintf("%d ns", ns)
	}
	return duration(time.Duration(ns))
}
