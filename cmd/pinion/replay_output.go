package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/viz"
)

// replayOutput is the JSON document of pinion replay.
type replayOutput struct {
	provenance.Record
	Trace         string `json:"trace"`
	Format        string `json:"format"`
	Allocator     string `json:"allocator"`
	CapacityBytes int64  `json:"capacity_bytes"`
	ChunkBytes    int64  `json:"chunk_bytes,omitempty"` // of the largest; 0: no chunks

	Events            int64    `json:"events"`
	PeakLiveBytes     int64    `json:"peak_live_bytes"`
	PeakReservedBytes int64    `json:"peak_reserved_bytes"`
	Fragmentation     float64  `json:"fragmentation"`
	OOMs              int64    `json:"ooms"`
	DriverCalls       int64    `json:"driver_calls"`
	AllocP50          float64  `json:"alloc_p50_seconds"`
	AllocP99          float64  `json:"alloc_p99_seconds"`
	FreeP50           float64  `json:"free_p50_seconds"`
	Retries           int64    `json:"retries"`
	PeakTraceBytes    int64    `json:"peak_trace_bytes"`
	LeastOOMBytes     int64    `json:"least_oom_bytes"`
	LeastOOMFraction  *float64 `json:"least_oom_fraction"` // of the capacity; null: never out of memory
	FailedInTrace     int64    `json:"failed_in_trace"`
	FailedGranted     int64    `json:"failed_granted"`
	Seconds           float64  `json:"seconds"`

	Simulated []simulatedOutput `json:"simulated"`

	Snapshot *snapshotOutput `json:"snapshot,omitempty"`

	defaultCapacity bool // of the host
}

// simulatedOutput is what another allocator would have needed, by its rules.
type simulatedOutput struct {
	Allocator         string  `json:"allocator"`
	PeakReservedBytes int64   `json:"peak_reserved_bytes"`
	Fragmentation     float64 `json:"fragmentation"`
	OOMs              int64   `json:"ooms"`
}

// simulatedNames name PyTorch's allocator by default and with expandable segments.
var simulatedNames = []string{"pytorch", "pytorch expandable_segments"}

// snapshotOutput says what --snapshot wrote.
type snapshotOutput struct {
	File          string `json:"file"`
	Events        int    `json:"events"`
	DroppedEvents int64  `json:"dropped_events"` // older ones that the history has lost
}

func newReplayOutput(dev device.Device, allocator string, in *traceInput, capacity int64, r *replay.Result) *replayOutput {
	info := dev.Info()
	out := &replayOutput{
		Record: provenance.Now().On(info.ID, info.Name), Trace: in.path, Format: string(in.Format()),
		Allocator: allocator, CapacityBytes: capacity,
		Events: r.Events, PeakLiveBytes: r.PeakLiveBytes, PeakReservedBytes: r.PeakReservedBytes,
		Fragmentation: r.Fragmentation(), OOMs: r.OOMs, DriverCalls: r.DriverCalls,
		AllocP50: r.AllocP50.Seconds(), AllocP99: r.AllocP99.Seconds(), FreeP50: r.FreeP50.Seconds(),
		Retries: r.Retries, PeakTraceBytes: r.PeakTraceBytes, LeastOOMBytes: r.LeastOOMBytes,
		FailedInTrace: r.FailedInTrace, FailedGranted: r.FailedGranted, Seconds: r.Elapsed.Seconds(),
	}
	if r.OOMs > 0 && capacity > 0 {
		share := float64(r.LeastOOMBytes) / float64(capacity)
		out.LeastOOMFraction = &share
	}
	return out
}

func (o *replayOutput) print(w io.Writer) {
	if !strings.HasPrefix(o.Device, "host:") { // whose capacity is said below
		fmt.Fprintf(w, "%s  ", o.Device)
	}
	fmt.Fprintf(w, "%s\n%s (%s) on %s\n%s", o.DeviceName, o.Trace, o.Format, o.Allocator, units.Bytes(o.CapacityBytes))
	if o.defaultCapacity {
		fmt.Fprint(w, " (default of the host, see --capacity)")
	}
	if o.ChunkBytes > 0 {
		fmt.Fprintf(w, " in chunks of up to %s", units.Bytes(o.ChunkBytes))
	}
	fmt.Fprintf(w, ", %s\n\n", units.Seconds(o.Seconds))
	if o.Events > 0 {
		o.printFigures(w)
	} else {
		fmt.Fprintln(w, "The trace has no events.")
	}
	if o.Snapshot != nil {
		o.Snapshot.print(w)
	}
}

// printFigures prints two tables, so that a line fits into 80 columns.
func (o *replayOutput) printFigures(w io.Writer) {
	memory := texttable.New(">EVENTS", ">PEAK LIVE", ">PEAK RESERVED", ">FRAGMENTATION", ">OOMS")
	memory.Add(fmt.Sprint(o.Events), units.Bytes(o.PeakLiveBytes), units.Bytes(o.PeakReservedBytes), ratio(o.Fragmentation), fmt.Sprint(o.OOMs))
	memory.Write(w)
	fmt.Fprintln(w)
	calls := texttable.New(">DRIVER CALLS", ">ALLOC P50", ">ALLOC P99", ">FREE P50")
	calls.Add(fmt.Sprint(o.DriverCalls), nanoseconds(o.AllocP50), nanoseconds(o.AllocP99), nanoseconds(o.FreeP50))
	calls.Write(w)
	if len(o.Simulated) > 0 {
		fmt.Fprintln(w)
		others := texttable.New("SIMULATED", ">PEAK RESERVED", ">FRAGMENTATION", ">OOMS")
		for _, s := range o.Simulated {
			others.Add(s.Allocator, units.Bytes(s.PeakReservedBytes), ratio(s.Fragmentation), fmt.Sprint(s.OOMs))
		}
		others.Write(w)
	}

	if o.OOMs > 0 {
		fmt.Fprintf(w, "\nOut of memory %s. The least that was too much, live and asked for:\n%s",
			units.Count(o.OOMs, "time"), units.Bytes(o.LeastOOMBytes))
		if o.LeastOOMFraction != nil {
			if share := *o.LeastOOMFraction; share < 10 {
				fmt.Fprintf(w, ", %s of the capacity", units.Percent(share))
			} else {
				fmt.Fprintf(w, ", %s times the capacity", units.Digits(share))
			}
		}
		fmt.Fprintln(w, ".")
	}
	if o.ChunkBytes > o.CapacityBytes {
		fmt.Fprintf(w, "\nOne chunk is %s: more than the capacity. See --chunk and --capacity.\n", units.Bytes(o.ChunkBytes))
	}
	if o.PeakTraceBytes > o.CapacityBytes {
		fmt.Fprintf(w, "\nThe trace needs %s at its peak: more than the capacity. See --capacity.\n", units.Bytes(o.PeakTraceBytes))
	}
	if o.FailedInTrace > 0 {
		fmt.Fprintf(w, "\n%s had failed when the trace was recorded; %d succeeded here.\n",
			units.Count(o.FailedInTrace, "allocation"), o.FailedGranted)
	}
	if o.Allocator != "pinion" {
		fmt.Fprintln(w, "\nReserved counts what is live: what the driver rounds up or keeps is not seen.")
	}
}

func (o *snapshotOutput) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s has the pool at the end of the trace and %s before.\n%s\n",
		o.File, units.Count(o.Events, "event"), formOf(o.File).use)
	if o.DroppedEvents > 0 {
		fmt.Fprintf(w, "The oldest %s are left out. See --history.\n", units.Count(o.DroppedEvents, "event"))
	}
}

// snapshotForm is a form that --snapshot writes.
type snapshotForm struct {
	use   string // what a person does with it
	write func(io.Writer, vram.Snapshot) error
}

// formOf is the form that a name asks for; nil: none.
func formOf(name string) *snapshotForm {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".pickle":
		return &snapshotForm{"Open it at https://pytorch.org/memory_viz.", viz.WriteTorch}
	case ".json":
		return &snapshotForm{"Open it at https://ui.perfetto.dev or chrome://tracing.", viz.WriteChrome}
	case ".jsonl":
		return &snapshotForm{"It is a trace, too: pinion replay takes it.", viz.WriteJSON}
	}
	return nil
}

// maxHistory keeps the ring below 1 GB.
const maxHistory = 10_000_000

// checkSnapshot checks --snapshot and --history.
func (f *replayFlags) checkSnapshot(cmd *cobra.Command, trace string) error {
	changed := cmd.Flags().Changed
	if !changed("snapshot") {
		if changed("history") {
			return cli.BadUsage(cmd, "--history needs --snapshot")
		}
		return nil
	}
	if formOf(f.snapshot) == nil {
		return cli.BadUsage(cmd, "--snapshot is %q, but must end in .pickle (for PyTorch's memory_viz), .json (for Perfetto) or .jsonl (for pinion replay)", f.snapshot)
	}
	if f.allocator != "pinion" {
		return cli.BadUsage(cmd, "--snapshot is for --allocator pinion, not for %s", f.allocator)
	}
	if in, err := os.Stat(trace); err == nil && trace != "-" {
		if out, err := os.Stat(f.snapshot); err == nil && os.SameFile(in, out) {
			return cli.BadUsage(cmd, "--snapshot %s is the trace itself", f.snapshot)
		}
	}
	return nil
}

// snapshotFile is the file of --snapshot.
type snapshotFile struct {
	snapshotOutput
	pending *atomicfile.File // nil: it has been written, or has failed
}

func newSnapshotFile(path string) (*snapshotFile, error) {
	pending, err := cli.CreateFile(path)
	if err != nil {
		return nil, err
	}
	return &snapshotFile{snapshotOutput{File: path}, pending}, nil
}

func (f *snapshotFile) write(ctx context.Context, s vram.Snapshot) error {
	f.Events, f.DroppedEvents = len(s.Events), s.Dropped
	pending := f.pending
	f.pending = nil
	return cli.FinishFile(pending, func(w io.Writer) error { return formOf(f.File).write(cli.WriterUntil(ctx, w), s) })
}

// close takes back what was not written to the end.
func (f *snapshotFile) close() error {
	if f.pending == nil {
		return nil
	}
	return f.pending.Discard()
}

// ratio prints a quotient that is 1 at best; 0: there is none.
func ratio(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v < 1000:
		return fmt.Sprintf("%.3f", v)
	}
	return units.Digits(v)
}

// nanoseconds prints a time; 0: there is none.
func nanoseconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return units.Seconds(s)
}
