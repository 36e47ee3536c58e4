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
	"github.com/pinion-gpu/pinion/loader"
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
		Long: `Find the best settings for feeding a dataset, by measurement: how many workers,
how many batches to read ahead, pinned or pageable memory, how many copiers and
how large their chunks, and where to decode photos. Tune also says what limits
the pipeline.

` + pipeline.DatasetHelp() + `

The flags that describe the pipeline are those of "pinion feed": tune the
pipeline that you run.

A few short trials calibrate a model of the stages. The settings that the model
does not rule out run in turn, in rounds; the better ones get more rounds. Of
all settings within 3 % of the fastest, tune chooses the one that pins the least
memory, then the one with the fewest threads. Settings that need more memory
than there is are listed with the amount.

--step-time asks another question: does a device that works on each batch for
that long have to wait? The trials sleep instead of working. Of the settings
with which the device waits less than 1 % of the time, tune chooses the
cheapest.

--batch, --workers, --prefetch, --copiers and --chunk take one value or several,
which replace those that tune would try. Copiers and chunks matter only on a
device with a link of its own, and for batches that are large enough.

A settled result is kept in your cache directory, for this machine, device,
driver, link, dataset and these flags. The next run prints it; --fresh measures
again.

--exhaustive then measures every setting against the choice, and says how close
the choice comes to the best. That takes longer than the budget, and is not
kept.`,
		Example: `  pinion tune ~/photos
  pinion tune ~/photos --step-time 20ms --dtype bf16 --transform rrc:224,flip
  pinion tune features.npy --device cuda:0 --batch 128,256,512 --budget 60s
  pinion tune ~/photos --report tune.html
  pinion tune ~/photos --fresh --trace trace.json`,
		Args: pipeline.DatasetArgs,
	}
	var f tuneFlags
	f.Register(cmd, true)
	set := cmd.Flags()
	var trace *cli.Trace
	flags.Group(set, "Search", func() {
		set.DurationVar(&f.budget, "budget", 30*time.Second, "`TIME` that all trials may take together")
		set.DurationVar(&f.step, "step-time", 0, "`TIME` that the device works on a batch (default: none)")
		set.BoolVar(&f.fresh, "fresh", false, "measure again, even if a result was kept")
		set.BoolVar(&f.exhaustive, "exhaustive", false, "also measure the whole grid")
	})
	flags.Group(set, "Report", func() {
		set.StringVar(&f.report, "report", "", "`FILE` for an HTML page")
		trace = cli.TraceFlag(set)
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	cmd.RunE = trace.Run(func(cmd *cobra.Command, args []string) error { return runTune(cmd, &f, args) })
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
	case slices.Contains(f.Batch, loader.AutoBatch):
		return o, cli.BadUsage(cmd, "--batch auto is for feed: tune compares sizes, so name some, such as --batch 32,64,128")
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
			o.MeasuredAt, o.Version, o.Commit = o.Result.At.Format(time.RFC3339), "unknown", "unknown"
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
