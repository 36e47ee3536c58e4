package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// hostCapacity is what the host backend has in a replay that says nothing
// else: the memory of a large GPU. Only what is written takes memory, and a
// replay writes nothing.
const hostCapacity = 80 << 30

// replayFlags are the flags of pinion replay that replays.
type replayFlags struct {
	device          *string
	allocator       string
	capacity, chunk int64
	snapshot        string // file; "": none
	history         int
	tidy, json      bool
}

// allocators are the values of --allocator.
var allocators = []string{"pinion", "plain", "driver"}

var replayFlagNames = []string{"device", "allocator", "capacity", "chunk", "snapshot", "history", "tidy", "json"}

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay TRACE | --generate NAME",
		Short: "Replay an allocation trace and report what the allocator needed",
		Long: `Replay an allocation trace on an allocator. Report how much memory the allocator
reserved compared with what was live, how often it ran out of memory, how many
driver calls it made, and how long its calls took.

TRACE is a file in one of these formats, gzipped or not, recognised by content;
"-" is standard input:

  JSON lines   {"op":"alloc","id":7,"bytes":4096,"stream":0}
               {"op":"free","id":7}
  CSV          Thread,Time,Action,Pointer,Size,Stream (the log of RAPIDS RMM)
  snapshot     of torch.cuda.memory._dump_snapshot

The allocators are

  pinion   Pinion's pool
  plain    one device allocation for each event
  driver   the driver's stream-ordered pool

FRAGMENTATION is the peak of the reserved bytes over the peak of the live bytes.
For plain and driver, only the live bytes are known to be reserved. What
PyTorch's caching allocator would reserve with the same capacity, by default and
with expandable_segments:True, is simulated by its rules.

The host backend can stand in for a GPU of --capacity (80 GiB by default); a
replay touches none of that memory. On a GPU, --capacity is a budget.

--tidy lets the pool move idle memory together after each event, outside of the
measured times: more driver calls in all, and fewer in the allocations.

--snapshot writes what the pool holds at the end of the trace, and the last
--history events before it. Recording them adds to the measured times. The name
selects the format:

  .pickle  for PyTorch's viewer, https://pytorch.org/memory_viz
  .json    for https://ui.perfetto.dev and chrome://tracing
  .jsonl   for pinion replay

--generate writes a trace as JSON lines instead:

  random    allocations of 1 to --max bytes, as many live as fit into --live
  streams   small and large allocations on several streams
  steps     training steps of a transformer
  growing   training steps with a batch that grows from --from to --to
  cycles    --bytes in different pieces each cycle, freed at its end`,
		Example: `  pinion replay run.pickle
  pinion replay trace.jsonl --capacity 24GiB --allocator plain --json
  pinion replay run.pickle --snapshot pool.pickle
  pinion replay --generate random --max 1GiB --live 16GiB -o trace.jsonl
  pinion replay --generate steps | pinion replay - --device cuda:0`,
	}
	var f replayFlags
	set := cmd.Flags()
	flags.Group(set, "Replay a trace", func() {
		f.device = cli.DeviceFlag(cmd)
		flags.Choice(set, &f.allocator, "allocator", "pinion", allocators, "what to replay on: "+flags.Or(allocators))
		flags.Size(set, &f.capacity, "capacity", 0, "memory that the allocator may use (default: on the host 80GiB, else what the device has free)")
		flags.Size(set, &f.chunk, "chunk", 0, "bytes of every physical chunk of the pool, a power of two (default: several sizes)")
		set.StringVar(&f.snapshot, "snapshot", "", "`FILE` for what the pool holds at the end, and its history: *.pickle, *.json or *.jsonl")
		flags.Int(set, &f.history, "history", 1_000_000, flags.Between(1, maxHistory), "events in the --snapshot")
		set.BoolVar(&f.tidy, "tidy", false, "let the pool move idle memory together between events, outside of the measured times")
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	g := addGenerateFlags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case set.Changed("generate") && len(args) > 0:
			return cli.BadUsage(cmd, "--generate makes a trace instead of replaying one, so %q is one argument too many", args[0])
		case set.Changed("generate"):
			return g.check(cmd)
		case len(args) == 0:
			return cli.BadUsage(cmd, "name the trace to replay, or --generate one")
		case len(args) > 1:
			return cli.BadUsage(cmd, "one trace is replayed at a time, but %d were given", len(args))
		}
		return f.check(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if set.Changed("generate") {
			return g.run(cmd)
		}
		return runReplay(cmd, &f, args[0])
	}
	return cmd
}

func (f *replayFlags) check(cmd *cobra.Command, path string) error {
	for _, name := range generateFlagNames {
		if cmd.Flags().Changed(name) {
			return cli.BadUsage(cmd, "--%s needs --generate", name)
		}
	}
	if f.allocator != "pinion" && f.chunk != 0 {
		return cli.BadUsage(cmd, "--chunk is for --allocator pinion, not for %s", f.allocator)
	}
	if f.allocator != "pinion" && f.tidy {
		return cli.BadUsage(cmd, "--tidy is for --allocator pinion, not for %s", f.allocator)
	}
	if f.capacity != 0 && strings.HasPrefix(*f.device, "host:") {
		return cli.BadUsage(cmd, "--device %s has a capacity already: leave out --capacity", *f.device)
	}
	return f.checkSnapshot(cmd, path)
}

func runReplay(cmd *cobra.Command, f *replayFlags, path string) (err error) {
	in, err := openTrace(cmd, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	dev, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	memory, err := dev.Memory()
	if err != nil {
		return err
	}
	capacity := memory.FreeBytes
	if f.capacity != 0 {
		capacity = min(capacity, f.capacity)
	}
	allocator, err := f.newAllocator(cmd, dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allocator.Close()) }()

	line := cli.NewProgress(cmd)
	options := replay.Options{Tidy: f.tidy, Progress: func(events int64) { in.show(line, events) }}
	pool, _ := allocator.(*replay.Pool)
	var snapshot *snapshotFile
	if f.snapshot != "" {
		if snapshot, err = newSnapshotFile(f.snapshot); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, snapshot.close()) }()
		options.AtEnd = func() error { return snapshot.write(cmd.Context(), pool.Pool().Snapshot()) }
	}
	simulations := []*replay.Torch{replay.NewTorch(capacity, false), replay.NewTorch(capacity, true)}
	result, err := replay.Run(cmd.Context(), replay.Tee(in.events(), simulations...), allocator, options)
	line.Clear()
	if err != nil {
		return err
	}
	out := newReplayOutput(dev, f.allocator, in, capacity, &result)
	out.defaultCapacity = f.capacity == 0 && !strings.HasPrefix(*f.device, "host:") && inHostMemory(dev)
	for i, s := range simulations {
		out.Simulated = append(out.Simulated, simulatedOutput{
			Allocator: simulatedNames[i], PeakReservedBytes: s.PeakReservedBytes, Fragmentation: s.Fragmentation(), OOMs: s.OOMs})
	}
	if pool != nil {
		out.ChunkBytes = pool.Pool().Stats().ChunkBytes
	}
	if snapshot != nil {
		out.Snapshot = &snapshot.snapshotOutput
	}
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

// inHostMemory reports whether the memory of dev is the machine's own, of which
// it takes what it is told to. Its kernels are Go functions then.
func inHostMemory(dev device.Device) bool {
	_, ok := device.As[device.Caller](dev)
	return ok
}

// open opens the device. A host device that was not given a capacity gets one
// here: its own would be what this machine has free.
func (f *replayFlags) open(cmd *cobra.Command) (device.Device, error) {
	name := *f.device
	if name != "host" {
		dev, err := cli.OpenDevice(cmd, name)
		if err != nil || name != "auto" || !inHostMemory(dev) {
			return dev, err
		}
		if err := dev.Close(); err != nil {
			return nil, err
		}
	}
	capacity := int64(hostCapacity)
	if f.capacity != 0 {
		capacity = f.capacity
	}
	return cli.OpenDevice(cmd, fmt.Sprintf("host:%d", capacity))
}

func (f *replayFlags) newAllocator(cmd *cobra.Command, dev device.Device) (replay.Allocator, error) {
	switch f.allocator {
	case "plain":
		return replay.NewPlain(dev, f.capacity), nil
	case "driver":
		return replay.NewAsync(dev, f.capacity)
	}
	o := vram.Options{Budget: f.capacity, ChunkBytes: f.chunk}
	if f.snapshot != "" {
		o.History = f.history
	}
	pool, err := replay.NewPool(dev, o)
	if errors.Is(err, device.ErrArgument) && f.chunk != 0 {
		return nil, cli.BadUsage(cmd, "--chunk: %w", err)
	}
	return pool, err
}

// traceInput is a trace that is read, and how far that is.
type traceInput struct {
	*trace.Reader
	ctx    context.Context
	path   string
	source io.Reader
	file   *os.File // to be closed; nil: none
	read   int64
	size   int64 // 0: unknown
}

func openTrace(cmd *cobra.Command, path string) (*traceInput, error) {
	in := &traceInput{ctx: cmd.Context(), path: path}
	if path == "-" {
		in.path = "standard input"
		in.source = cli.ReaderUntil(in.ctx, cmd.InOrStdin())
	} else {
		var err error
		if in.file, err = os.Open(path); err != nil {
			return nil, cli.Advise(err, `"pinion replay --generate random -o trace.jsonl" makes a trace`)
		}
		in.source = in.file
		if info, err := in.file.Stat(); err == nil && info.IsDir() {
			return nil, errors.Join(fmt.Errorf("%s is a folder, not a trace", path), in.Close())
		} else if err == nil && info.Mode().IsRegular() {
			in.size = info.Size()
		}
	}
	var err error
	if in.Reader, err = trace.NewReader(in, trace.Options{}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.path, err), in.Close())
	}
	return in, nil
}

// piece is the most that is read at once: what is read and not replayed yet
// counts as progress.
const piece = 64 << 10

// Read gives the trace to its parser.
func (in *traceInput) Read(p []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := in.source.Read(p[:min(len(p), piece)])
	in.read += int64(n)
	return n, err
}

// show shows how far the replay is. A snapshot is read as a whole before it
// starts.
func (in *traceInput) show(line *cli.Progress, events int64) {
	what := "replaying " + filepath.Base(in.path)
	if in.size == 0 || in.Format() == trace.Snapshot {
		line.Show(int(events), -1, what)
		return
	}
	line.Show(int(float64(in.read)/float64(in.size)*100), 100, what)
}

// events are those of the trace; an error names it.
func (in *traceInput) events() iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for e, err := range in.All() {
			if err != nil {
				err = fmt.Errorf("%s: %w", in.path, err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (in *traceInput) Close() error {
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}
