package main

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/tune"
)

// tuneFlags are the flags of pinion tune.
type tuneFlags struct {
	datasetFlags
	device                  *string
	budget, step            time.Duration
	batch                   []int
	seed                    uint64
	fresh, exhaustive, json bool
	report                  string
}

func newTune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune [DATASET]",
		Short: "Find the settings to feed a dataset to a device with",
		Long: `Find by measurement how many workers to feed a dataset with, how many batches to
read ahead, whether to pin host memory, where to decode photos, and what limits
the pipeline.

` + datasetHelp + `

A few short runs calibrate a model of the stages. What that does not find slow is
run in turn, round by round, with more rounds for the better ones. Of all that are
within 3 % of the fastest the one is chosen that takes the least pinned memory,
and then the fewest threads. A setting that needs more memory than there is is
left out, and listed with how much it asked for.

With --step-time the question is another one: does a device wait that uses each
batch for so long? The step is slept where the batch would be used. Of the
settings with which it waits less than 1 % of the time the cheapest is chosen.

With several sizes of --batch the batch size is searched for too.

The result is kept in your cache directory, for this machine, device, driver and
dataset. The next run prints that, unless it is told --fresh.

--exhaustive measures every setting afterwards, beside the choice, and says how
near to the best the choice is. It takes longer than the budget, and is not kept.`,
		Example: `  pinion tune ~/photos
  pinion tune ~/photos --step-time 20ms
  pinion tune features.npy --device cuda:0 --batch 128,256,512 --budget 60s
  pinion tune ~/photos --report tune.html`,
		Args: datasetArgs,
	}
	var f tuneFlags
	f.device = deviceFlag(cmd)
	f.register(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.budget, "budget", 30*time.Second, "how long trials may take together")
	flags.DurationVar(&f.step, "step-time", 0, "how long the device uses a batch (default: not at all)")
	flags.IntSliceVar(&f.batch, "batch", []int{64}, "samples in a batch, or sizes to choose from")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the order of samples and trials")
	flags.BoolVar(&f.fresh, "fresh", false, "measure anew, whatever was kept")
	flags.BoolVar(&f.exhaustive, "exhaustive", false, "measure the whole grid too")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	flags.StringVar(&f.report, "report", "", "write an HTML page to this file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTune(cmd, &f, args) }
	return cmd
}

// options checks the flags and makes the search's options of them.
func (f *tuneFlags) options(cmd *cobra.Command) (tune.Options, error) {
	o := tune.Options{
		Budget: f.budget, StepTime: f.step, Seed: f.seed, Exhaustive: f.exhaustive,
		Loader: loader.Options{Shuffle: true, Seed: f.seed},
	}
	slices.Sort(f.batch)
	o.Space.Batch = slices.Compact(f.batch)
	switch {
	case f.budget <= 0:
		return o, badUsage(cmd, "--budget is %v, but must be more than nothing", f.budget)
	case f.step < 0 || f.step == 0 && cmd.Flags().Changed("step-time"):
		return o, badUsage(cmd, "--step-time is %v, but must be more than nothing", f.step)
	case f.step > f.budget:
		return o, badUsage(cmd, "--step-time is %v, but the --budget for all trials is %v", f.step, f.budget)
	case len(f.batch) == 0 || f.batch[0] < 1:
		return o, badUsage(cmd, "--batch is %v, but must be at least 1", f.batch)
	case f.step > 0 && len(o.Space.Batch) > 1:
		return o, badUsage(cmd, "--step-time is that of one batch size, but --batch has %d", len(o.Space.Batch))
	case f.report == "" && cmd.Flags().Changed("report"):
		return o, badUsage(cmd, "--report needs the name of a file")
	}
	return o, nil
}

func runTune(cmd *cobra.Command, f *tuneFlags, args []string) (err error) {
	options, err := f.options(cmd)
	if err != nil {
		return err
	}
	line := newProgress(cmd)
	defer line.clear()
	ds, path, err := f.open(cmd, args, line)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDataset(ds)) }()
	dev, err := openDevice(cmd, *f.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()

	var page *pendingFile
	if f.report != "" {
		if page, err = newPendingFile(f.report); err != nil {
			return err
		}
	}
	options.Progress = func(spent, budget time.Duration, what string) {
		line.show(int(spent.Seconds()), max(int(budget.Seconds()), 1), what)
	}
	out := newTuneOutput(dev, ds, path)
	err = out.search(cmd, dev, ds, options, f.fresh)
	line.clear()
	if err != nil {
		if page != nil {
			err = errors.Join(err, page.discard())
		}
		return err
	}
	if page != nil {
		if err := page.commit(out.writeReport); err != nil {
			return err
		}
		out.Report = f.report
	}
	out.Go, out.PyTorch, out.Why = out.Best.Go(), out.Result.PyTorch(), out.Result.Why()
	if f.json {
		return printJSON(cmd, out)
	}
	return printText(cmd, out.print)
}

// search takes the result that was kept, or makes and keeps one.
func (o *tuneOutput) search(cmd *cobra.Command, dev device.Device, ds dataset.Dataset, options tune.Options, fresh bool) (err error) {
	if !fresh && !options.Exhaustive {
		if o.Result, err = tune.Load(dev, ds, options); err == nil {
			o.AgeSeconds = cmp.Or(max(time.Since(o.Result.At), 0), 1).Seconds()
			return nil
		}
	}
	if o.Result, err = tune.Feed(cmd.Context(), dev, ds, options); err != nil || options.Exhaustive {
		return err
	}
	if _, err := o.Result.Keep(dev, ds, options); err != nil {
		o.NotKept = err.Error()
	}
	return nil
}
