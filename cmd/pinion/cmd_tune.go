package main

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/pipeline"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/tune"
)

// tuneFlags are the flags of pinion tune.
type tuneFlags struct {
	pipeline.Flags
	budget, step            time.Duration
	fresh, exhaustive, json bool
	report                  string
}

func newTune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune [DATASET]",
		Short: "Find the settings to feed a dataset to a device with",
		Long: `Find by measurement how many workers to feed a dataset with, how many batches to
read ahead, whether to pin host memory or how many copiers to have and how large
their chunks where it is not pinned, where to decode photos, and what limits the
pipeline.

` + pipeline.DatasetHelp + `

A few short runs calibrate a model of the stages. What that does not find slow is
run in turn, round by round, with more rounds for the better ones. Of all that are
within 3 % of the fastest the one is chosen that takes the least pinned memory,
and then the fewest threads: workers and copiers. A setting that needs more memory
than there is is left out, and listed with how much it asked for.

With --step-time the question is another one: does a device wait that uses each
batch for so long? The step is slept where the batch would be used. Of the
settings with which it waits less than 1 % of the time the cheapest is chosen.

With several sizes of --batch the batch size is searched for too. --workers,
--prefetch, --copiers and --chunk take one value or several, in place of those
that are tried otherwise. Copiers and chunks are tried where a device has a link
of its own and a batch is large enough to gain by them.

With --on-error, samples that cannot be read are left out or replaced as in
"pinion feed", and counted: in every trial that meets them.

The result is kept in your cache directory, for this machine, device, driver,
calibration of its link and dataset. The next run prints that, unless it is told
--fresh.

--exhaustive measures every setting afterwards, beside the choice, and says how
near to the best the choice is. It takes longer than the budget, and is not kept.`,
		Example: `  pinion tune ~/photos
  pinion tune ~/photos --step-time 20ms
  pinion tune features.npy --device cuda:0 --batch 128,256,512 --budget 60s
  pinion tune ~/photos --report tune.html`,
		Args: pipeline.DatasetArgs,
	}
	var f tuneFlags
	f.Register(cmd, true)
	set := cmd.Flags()
	flags.Group(set, "Search", func() {
		set.DurationVar(&f.budget, "budget", 30*time.Second, "`TIME` that all trials may take together")
		set.DurationVar(&f.step, "step-time", 0, "`TIME` that the device works on a batch (default: none)")
		set.BoolVar(&f.fresh, "fresh", false, "measure anew, whatever was kept")
		set.BoolVar(&f.exhaustive, "exhaustive", false, "measure the whole grid too")
	})
	flags.Group(set, "Report", func() {
		set.StringVar(&f.report, "report", "", "`FILE` for an HTML page")
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTune(cmd, &f, args) }
	return cmd
}

// options checks the flags and makes the search's options of them.
func (f *tuneFlags) options(cmd *cobra.Command) (tune.Options, error) {
	o := tune.Options{
		Budget: f.budget, StepTime: f.step, Seed: f.Seed, Exhaustive: f.exhaustive,
		Space: tune.Space{
			Workers: ascending(f.Workers), Batch: ascending(f.Batch), Prefetch: ascending(f.Prefetch),
			Copiers: ascending(f.Copiers), ChunkBytes: ascending(f.Chunk),
		},
	}
	var err error
	if o.Loader, err = f.Flags.Options(cmd); err != nil {
		return o, err
	}
	switch {
	case f.Sampler == "length":
		return o, cli.BadUsage(cmd, "--sampler length makes batches of its own, of which tune can choose neither size nor order: leave it out, or tune with --sampler random")
	case f.budget <= 0:
		return o, cli.BadUsage(cmd, "--budget is %v, but must be more than nothing", f.budget)
	case f.step < 0 || f.step == 0 && cmd.Flags().Changed("step-time"):
		return o, cli.BadUsage(cmd, "--step-time is %v, but must be more than nothing", f.step)
	case f.step > f.budget:
		return o, cli.BadUsage(cmd, "--step-time is %v, but the --budget for all trials is %v", f.step, f.budget)
	case f.step > 0 && len(o.Space.Batch) > 1:
		return o, cli.BadUsage(cmd, "--step-time is that of one batch size, but --batch has %d", len(o.Space.Batch))
	case f.report == "" && cmd.Flags().Changed("report"):
		return o, cli.BadUsage(cmd, "--report needs the name of a file")
	}
	return o, nil
}

// ascending are the values that a flag names, each once.
func ascending[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func runTune(cmd *cobra.Command, f *tuneFlags, args []string) error {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	if err := notOver(cmd, f.Paths(args), "report", f.report); err != nil {
		return err
	}
	prepare := func(ds dataset.Dataset) error {
		return f.Prepare(cmd, ds, pipeline.First(options.Space.Batch), &options.Loader)
	}
	return f.Use(cmd, args, prepare, func(in *pipeline.Input) error { return f.tune(cmd, in, options) })
}

// tune finds settings for what was opened, and reports.
func (f *tuneFlags) tune(cmd *cobra.Command, in *pipeline.Input, options tune.Options) (err error) {
	var page *atomicfile.File
	if f.report != "" {
		if page, err = cli.CreateFile(f.report); err != nil {
			return err
		}
	}
	options.Progress = func(spent, budget time.Duration, what string) {
		in.Line.Show(int(spent.Seconds()), max(int(budget.Seconds()), 1), what)
	}
	options.Loader.Targets = in.Targets()
	out := newTuneOutput(in)
	err = out.search(cmd, in, options, f.fresh)
	in.Line.Clear()
	if err != nil {
		if page != nil {
			err = errors.Join(err, page.Discard())
		}
		return err
	}
	if page != nil {
		if err := cli.FinishFile(page, out.writeReport); err != nil {
			return err
		}
		out.Report = f.report
	}
	out.Go, out.PyTorch, out.Why = out.Best.Go(), out.Result.PyTorch(), out.Result.Why()
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

// search takes the result that was kept, or makes and keeps one.
func (o *tuneOutput) search(cmd *cobra.Command, in *pipeline.Input, options tune.Options, fresh bool) (err error) {
	if !fresh && !options.Exhaustive {
		if o.Result, err = tune.Load(in.Device, in.Dataset, options); err == nil {
			o.AgeSeconds = cmp.Or(max(time.Since(o.Result.At), 0), 1).Seconds()
			// Perhaps by another build than this one.
			o.MeasuredAt, o.Commit = o.Result.At.Format(time.RFC3339), "unknown"
			return nil
		}
	}
	if o.Result, err = tune.Feed(cmd.Context(), in.Device, in.Dataset, options); err != nil || options.Exhaustive {
		return err
	}
	if _, err := o.Result.Keep(in.Device, in.Dataset, options); err != nil && !errors.Is(err, tune.ErrNotSettled) {
		o.NotKept = err.Error()
	}
	return nil
}
