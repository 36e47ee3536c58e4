package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/spf13/cobra"

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
	capacity, chunk size
	json            bool
}

var replayFlagNames = []string{"device", "allocator", "capacity", "chunk", "json"}

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay TRACE | --generate NAME",
		Short: "Replay an allocation trace and report what the allocator needed",
		Long: `Replay an allocation trace on an allocator, and report how much memory it
reserved for how much that was live, how often it was out of memory, how many
driver calls it took and how long its calls were.

TRACE is a file in one of these formats, told apart by content, also inside
gzip; "-" is standard input:

  JSON lines   {"op":"alloc","id":7,"bytes":4096,"stream":0}
               {"op":"free","id":7}
  CSV          Thread,Time,Action,Pointer,Size,Stream (the log of RAPIDS RMM)
  snapshot     of torch.cuda.memory._dump_snapshot

The allocators are

  pinion   Pinion's pool
  plain    an allocation of the device for each event
  driver   the stream-ordered pool of the driver

FRAGMENTATION is the peak of the reserved bytes over that of the live ones. For
plain and driver only what is live is known to be reserved.

The host backend stands in for a GPU: with --capacity it has that much memory
(80 GiB without), of which a replay touches none. On a GPU, --capacity is a
budget.

With --generate a trace is made and written as JSON lines:

  random    allocations of 1 to --max bytes, as many live as fit into --live
  streams   small and large ones on several streams
  steps     training steps of a transformer
  growing   the same with a batch that grows from --from to --to
  cycles    --bytes in other pieces each cycle, freed at its end`,
		Example: `  pinion replay run.pickle
  pinion replay trace.jsonl --capacity 24GiB --allocator plain --json
  pinion replay --generate random --count 10000 --max 1GiB --live 16GiB --seed 1 -o trace.jsonl
  pinion replay --generate steps | pinion replay - --device cuda:0`,
	}
	var f replayFlags
	f.device = deviceFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.allocator, "allocator", "pinion", "what to replay on: pinion, plain or driver")
	flags.Var(&f.capacity, "capacity", "memory that the allocator may have (default: on the host 80GiB, else what the device has free)")
	flags.Var(&f.chunk, "chunk", "bytes of a physical chunk of the pool, a power of two (default: chosen by the capacity)")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	g := addGenerateFlags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case flags.Changed("generate") && len(args) > 0:
			return badUsage(cmd, "--generate makes a trace, and replays none: %q is too much", args[0])
		case flags.Changed("generate"):
			return g.check(cmd)
		case len(args) == 0:
			return badUsage(cmd, "name the trace to replay, or --generate one")
		case len(args) > 1:
			return badUsage(cmd, "one trace is replayed at a time, but %d were given", len(args))
		}
		return f.check(cmd)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("generate") {
			return g.run(cmd)
		}
		return runReplay(cmd, &f, args[0])
	}
	return cmd
}

func (f *replayFlags) check(cmd *cobra.Command) error {
	for _, name := range generateFlagNames {
		if cmd.Flags().Changed(name) {
			return badUsage(cmd, "--%s needs --generate", name)
		}
	}
	switch f.allocator {
	case "pinion":
	case "plain", "driver":
		if f.chunk != 0 {
			return badUsage(cmd, "--chunk is of --allocator pinion, not of %s", f.allocator)
		}
	default:
		return badUsage(cmd, "--allocator is %q, but must be pinion, plain or driver", f.allocator)
	}
	if f.capacity != 0 && strings.HasPrefix(*f.device, "host:") {
		return badUsage(cmd, "--device %s has a capacity already: leave out --capacity", *f.device)
	}
	return nil
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
		capacity = min(capacity, int64(f.capacity))
	}
	allocator, err := f.newAllocator(cmd, dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allocator.Close()) }()

	line := newProgress(cmd)
	result, err := replay.Run(cmd.Context(), in.events(), allocator, replay.Options{
		Progress: func(int64) {
			if percent, known := in.percent(); known {
				line.show(percent, 100, "replaying "+path)
			}
		},
	})
	line.clear()
	if err != nil {
		return err
	}
	out := newReplayOutput(dev, f.allocator, in, capacity, &result)
	if pool, ok := allocator.(*replay.Pool); ok {
		out.ChunkBytes = pool.Pool().Stats().ChunkBytes
	}
	if f.json {
		return printJSON(cmd, out)
	}
	return printText(cmd, out.print)
}

// open opens the device. A host device that was not given a capacity gets one
// here: its own would be what this machine has free.
func (f *replayFlags) open(cmd *cobra.Command) (device.Device, error) {
	name := *f.device
	if name != "host" {
		dev, err := openDevice(cmd, name)
		if err != nil || name != "auto" || dev.Info().Backend != "host" {
			return dev, err
		}
		if err := dev.Close(); err != nil {
			return nil, err
		}
	}
	capacity := int64(hostCapacity)
	if f.capacity != 0 {
		capacity = int64(f.capacity)
	}
	return openDevice(cmd, fmt.Sprintf("host:%d", capacity))
}

func (f *replayFlags) newAllocator(cmd *cobra.Command, dev device.Device) (replay.Allocator, error) {
	switch f.allocator {
	case "plain":
		return replay.NewPlain(dev, int64(f.capacity)), nil
	case "driver":
		return replay.NewAsync(dev, int64(f.capacity))
	}
	pool, err := replay.NewPool(dev, vram.Options{Budget: int64(f.capacity), ChunkBytes: int64(f.chunk)})
	if errors.Is(err, device.ErrArgument) && f.chunk != 0 {
		return nil, badUsage(cmd, "--chunk: %w", err)
	}
	return pool, err
}

// traceInput is a trace that is read, and how far that is.
type traceInput struct {
	*trace.Reader
	path   string
	source io.Reader
	read   int64
	size   int64 // 0: unknown
}

func openTrace(cmd *cobra.Command, path string) (*traceInput, error) {
	in := &traceInput{path: path, source: cmd.InOrStdin()}
	if path == "-" {
		in.path = "standard input"
	} else {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			in.size = info.Size()
		}
		in.source = file
	}
	var err error
	if in.Reader, err = trace.NewReader(in, trace.Options{}); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", in.path, err), in.Close())
	}
	return in, nil
}

// Read gives the trace to its parser.
func (in *traceInput) Read(p []byte) (int, error) {
	n, err := in.source.Read(p)
	in.read += int64(n)
	return n, err
}

func (in *traceInput) percent() (percent int, known bool) {
	if in.size == 0 {
		return 0, false
	}
	return int(float64(in.read) / float64(in.size) * 100), true
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
	if file, ok := in.source.(*os.File); ok && file != os.Stdin {
		return file.Close()
	}
	return nil
}
