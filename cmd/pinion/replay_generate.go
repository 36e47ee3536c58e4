package main

import (
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// generateFlags are the flags of pinion replay --generate.
type generateFlags struct {
	generator, output                              string
	count, streams, steps, batch, from, to, cycles int
	max, min, live, bytes                          int64
	seed                                           uint64
}

var generateFlagNames = []string{"output", "seed", "count", "max", "min", "live", "streams", "steps", "batch", "from", "to", "cycles", "bytes"}

// generator makes a trace from its flags.
type generator struct {
	flags []string // that it takes, beside those of all
	make  func(*generateFlags) (iter.Seq[trace.Event], error)
}

var generators = map[string]generator{
	"random": {[]string{"count", "max", "live"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Random(trace.RandomOptions{Count: f.count, Max: f.max, Live: f.live, Seed: f.seed})
	}},
	"streams": {[]string{"count", "streams", "min", "max", "live"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Streams(trace.StreamsOptions{Count: f.count, Streams: f.streams, Min: f.min, Max: f.max,
			Live: f.live, Seed: f.seed})
	}},
	"steps": {[]string{"steps", "batch"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Steps(trace.StepsOptions{Steps: f.steps, Batch: f.batch, Seed: f.seed})
	}},
	"growing": {[]string{"steps", "from", "to"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Growing(trace.GrowingOptions{Steps: f.steps, From: f.from, To: f.to, Seed: f.seed})
	}},
	"cycles": {[]string{"cycles", "bytes", "min", "max"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Cycles(trace.CyclesOptions{Cycles: f.cycles, Bytes: f.bytes, Min: f.min, Max: f.max, Seed: f.seed})
	}},
}

// generatorNames are the values of --generate.
var generatorNames = slices.Sorted(maps.Keys(generators))

func addGenerateFlags(cmd *cobra.Command) *generateFlags {
	var f generateFlags
	set := cmd.Flags()
	flags.Group(set, "Generate a trace", func() {
		flags.Choice(set, &f.generator, "generate", "", generatorNames, "write a trace instead: "+flags.Or(generatorNames))
		set.StringVarP(&f.output, "output", "o", "-", "file for the trace of --generate; \"-\" is standard output")
		set.Uint64Var(&f.seed, "seed", 0, "seed of --generate")
		flags.Int(set, &f.count, "count", 0, flags.AtLeast(1), "random, streams: number of allocations (default: 10000)")
		flags.Size(set, &f.max, "max", 0, "random, streams, cycles: largest allocation (default: 1GiB; streams 256MiB)")
		flags.Size(set, &f.min, "min", 0, "streams, cycles: smallest allocation (default: 512B; cycles 4MiB)")
		flags.Size(set, &f.live, "live", 0, "random, streams: most bytes that are live at a time (default: 16GiB; streams 8GiB)")
		flags.Int(set, &f.streams, "streams", 0, flags.AtLeast(1), "streams: number of streams (default: 4)")
		flags.Int(set, &f.steps, "steps", 0, flags.AtLeast(1), "steps, growing: number of training steps (default: 20; growing 30)")
		flags.Int(set, &f.batch, "batch", 0, flags.AtLeast(1), "steps: samples of a step (default: 64)")
		flags.Int(set, &f.from, "from", 0, flags.AtLeast(1), "growing: samples of the first step (default: 64)")
		flags.Int(set, &f.to, "to", 0, flags.AtLeast(1), "growing: samples of the last step (default: 96)")
		flags.Int(set, &f.cycles, "cycles", 0, flags.AtLeast(1), "cycles: how often everything is allocated and freed (default: 100)")
		flags.Size(set, &f.bytes, "bytes", 0, "cycles: bytes that are live at the peak of each (default: 8GiB)")
	})
	return &f
}

func (f *generateFlags) check(cmd *cobra.Command) error {
	g := generators[f.generator]
	for _, name := range replayFlagNames {
		if cmd.Flags().Changed(name) {
			return cli.BadUsage(cmd, "--%s is for a replay: --generate only writes a trace", name)
		}
	}
	for _, name := range generateFlagNames {
		if cmd.Flags().Changed(name) && name != "output" && name != "seed" && !slices.Contains(g.flags, name) {
			return cli.BadUsage(cmd, "--generate %s takes no --%s", f.generator, name)
		}
	}
	if f.output == "" {
		return cli.BadUsage(cmd, "--output needs the name of a file")
	}
	return nil
}

// run writes the trace.
func (f *generateFlags) run(cmd *cobra.Command) error {
	events, err := generators[f.generator].make(f)
	if err != nil {
		return cli.BadUsage(cmd, "--generate %s: %w", f.generator, err)
	}
	write := func(w io.Writer) error {
		out, n := trace.NewWriter(w), 0
		for e := range events {
			if n++; n%1024 == 1 && cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			if err := out.Write(e); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	if f.output == "-" {
		return write(cmd.OutOrStdout())
	}
	file, err := cli.CreateFile(f.output)
	if err != nil {
		return err
	}
	return cli.FinishFile(file, write)
}
