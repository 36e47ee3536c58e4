package main

import (
	"io"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/vram/trace"
)

// generateFlags are the flags of pinion replay --generate.
type generateFlags struct {
	generator, output                              string
	count, streams, steps, batch, from, to, cycles int
	max, min, live, bytes                          size
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
		return trace.Random(trace.RandomOptions{Count: f.count, Max: int64(f.max), Live: int64(f.live), Seed: f.seed})
	}},
	"streams": {[]string{"count", "streams", "min", "max", "live"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Streams(trace.StreamsOptions{Count: f.count, Streams: f.streams, Min: int64(f.min), Max: int64(f.max),
			Live: int64(f.live), Seed: f.seed})
	}},
	"steps": {[]string{"steps", "batch"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Steps(trace.StepsOptions{Steps: f.steps, Batch: f.batch, Seed: f.seed})
	}},
	"growing": {[]string{"steps", "from", "to"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Growing(trace.GrowingOptions{Steps: f.steps, From: f.from, To: f.to, Seed: f.seed})
	}},
	"cycles": {[]string{"cycles", "bytes", "min", "max"}, func(f *generateFlags) (iter.Seq[trace.Event], error) {
		return trace.Cycles(trace.CyclesOptions{Cycles: f.cycles, Bytes: int64(f.bytes), Min: int64(f.min), Max: int64(f.max), Seed: f.seed})
	}},
}

func addGenerateFlags(cmd *cobra.Command) *generateFlags {
	var f generateFlags
	flags := cmd.Flags()
	flags.StringVar(&f.generator, "generate", "", "write a trace instead: random, streams, steps, growing or cycles")
	flags.StringVarP(&f.output, "output", "o", "-", "file for the trace of --generate; \"-\" is standard output")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of --generate")
	flags.IntVar(&f.count, "count", 0, "random, streams: number of allocations (default 10000)")
	flags.Var(&f.max, "max", "random, streams, cycles: largest allocation (default 1GiB; streams 256MiB)")
	flags.Var(&f.min, "min", "streams, cycles: smallest allocation (default 512B; cycles 4MiB)")
	flags.Var(&f.live, "live", "random, streams: most bytes that are live at a time (default 16GiB; streams 8GiB)")
	flags.IntVar(&f.streams, "streams", 0, "streams: number of streams (default 4)")
	flags.IntVar(&f.steps, "steps", 0, "steps, growing: number of training steps (default 20; growing 30)")
	flags.IntVar(&f.batch, "batch", 0, "steps: samples of a step (default 64)")
	flags.IntVar(&f.from, "from", 0, "growing: samples of the first step (default 64)")
	flags.IntVar(&f.to, "to", 0, "growing: samples of the last step (default 96)")
	flags.IntVar(&f.cycles, "cycles", 0, "cycles: how often everything is allocated and freed (default 100)")
	flags.Var(&f.bytes, "bytes", "cycles: bytes that are live at the peak of each (default 8GiB)")
	return &f
}

func (f *generateFlags) check(cmd *cobra.Command) error {
	g, ok := generators[f.generator]
	if !ok {
		return badUsage(cmd, "--generate is %q, but must be random, streams, steps, growing or cycles", f.generator)
	}
	for _, name := range replayFlagNames {
		if cmd.Flags().Changed(name) {
			return badUsage(cmd, "--%s is for a replay: --generate only writes a trace", name)
		}
	}
	for _, name := range generateFlagNames {
		if cmd.Flags().Changed(name) && name != "output" && name != "seed" && !slices.Contains(g.flags, name) {
			return badUsage(cmd, "--generate %s takes no --%s", f.generator, name)
		}
	}
	for _, v := range []struct {
		name  string
		value int
	}{{"count", f.count}, {"streams", f.streams}, {"steps", f.steps}, {"batch", f.batch}, {"from", f.from}, {"to", f.to}, {"cycles", f.cycles}} {
		if v.value < 1 && cmd.Flags().Changed(v.name) {
			return badUsage(cmd, "--%s is %d, but must be at least 1", v.name, v.value)
		}
	}
	if f.output == "" {
		return badUsage(cmd, "--output needs the name of a file")
	}
	return nil
}

// run writes the trace.
func (f *generateFlags) run(cmd *cobra.Command) error {
	events, err := generators[f.generator].make(f)
	if err != nil {
		return badUsage(cmd, "--generate %s: %w", f.generator, err)
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
	file, err := newPendingFile(f.output)
	if err != nil {
		return err
	}
	return file.commit(write)
}
