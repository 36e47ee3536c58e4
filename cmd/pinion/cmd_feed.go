package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/feed"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/pipeline"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
)

// feedFlags are the flags of pinion feed.
type feedFlags struct {
	pipeline.Flags
	epochs, stopAfter, listErrors int
	saveState, resume, digests    string
	checksum, json                bool
}

func newFeed() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed [DATASET]",
		Short: "Feed a dataset to a device and report how fast it went",
		Long: `Feed a dataset to a device, batch by batch, and report how fast it went.

` + pipeline.DatasetHelp + `

Photos are scaled so that the shorter side is --size and cut to the centre
square; images become normalised floats on the device. --transform does
something else with photos:

  rrc:224,flip,jitter              a random part, mirrored or not, other colours
  resize:256,crop:224              the middle, of the shorter side scaled to 256
  stretch:128x96,bicubic           all of it, by another filter
  rrc:224,scale:0.3,1,flip:0.2,jitter:0.4,0.4,0.4,0.1

Depth maps, X-rays and pictures of microscopes have 16 bits, and often one
channel: --depth 16 keeps all bits, --channels 1 makes or keeps grey. The largest
sample, 65535 or 255, counts as 1; --dtype u16 leaves samples as they are. Such
photos are decoded by workers.

--targets names what goes with the samples, read like a DATASET and delivered as
it is: sample i of it with sample i. Photos of a folder are masks there: PNGs with
a palette or grey, of which the indexes or values are taken, cropped and mirrored
as the photos are; where the first has 16 bits, all have. They are found by the
names of the photos, without extensions.

The order of samples depends on --sampler, --seed and the epoch alone:
sequential, random (each sample once), replacement (drawn at random), balanced
(drawn so that classes are equally likely), length (batches of samples of
similar length), or blocks (shards at random, the samples of a few of them
mixed, so that each shard is fetched once). --rank and --world take one process's
part of it, by the rules of PyTorch's DistributedSampler.

--save-state writes where the run is when it ends, also by an interrupt or
--stop-after, and --resume goes on there with the batches that would have come.
--digests writes a line of JSON for each batch: epoch, batch, samples, and the
SHA-256 of its bytes, and behind them those of its targets, as read back from the
device.

An interrupt ends the run between two batches, with the report of what was fed
until then (none with --json).

Batches are released as soon as they arrive, so the rate is the most that the
pipeline gives; the share of time "waited for data" is what a device with
nothing else to do would have stood idle.`,
		Example: `  pinion feed
  pinion feed ~/photos --batch 128 --workers 16 --dtype bf16 --shuffle --epochs 3
  pinion feed features.npy --device host:2GiB --json
  pinion feed tokens.jsonl --field tokens --label class
  pinion feed 'https://example.org/train-{000..127}.tar' --sampler blocks
  pinion feed images.bin --raw 256x256x3,u8 --shuffle
  pinion feed ~/photos --transform rrc:224,flip,jitter --mixup 0.2 --decode gpu
  pinion feed ~/voc/photos --targets ~/voc/masks --transform rrc:224,flip,jitter
  pinion feed ~/depth --depth 16 --channels 1 --dtype f16
  pinion feed ~/photos --on-error skip --checksum
  pinion feed ~/photos --sampler random --rank 0 --world 4 --stop-after 100 --save-state state.json
  pinion feed ~/photos --sampler random --rank 0 --world 4 --resume state.json --digests batches.jsonl`,
		Args: pipeline.DatasetArgs,
	}
	var f feedFlags
	f.Register(cmd, false)
	set := cmd.Flags()
	flags.Group(set, "Run", func() {
		flags.Int(set, &f.epochs, "epochs", 1, flags.AtLeast(1), "passes over the dataset")
		flags.Int(set, &f.stopAfter, "stop-after", 0, flags.AtLeast(0), "stop after this many batches (default: at the end)")
		set.StringVar(&f.saveState, "save-state", "", "`FILE` to save the position to when the run ends")
		set.StringVar(&f.resume, "resume", "", "`FILE` of a saved position to go on from")
	})
	flags.Group(set, "Report", func() {
		set.BoolVar(&f.checksum, "checksum", false, "read every batch back from the device and hash the batches in order")
		set.StringVar(&f.digests, "digests", "", "`FILE` for a line of JSON about each batch")
		flags.Int(set, &f.listErrors, "list-errors", 10, flags.AtLeast(0), "most samples to name that --on-error skipped or replaced (--json lists all)")
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runFeed(cmd, &f, args) }
	return cmd
}

// options checks the flags and makes the loader's options of them.
func (f *feedFlags) options(cmd *cobra.Command, args []string) (loader.Options, error) {
	o, err := f.Flags.Options(cmd)
	if err != nil {
		return o, err
	}
	o.Epochs = f.epochs
	o.Batch, o.Workers, o.Prefetch = pipeline.First(f.Batch), pipeline.First(f.Workers), pipeline.First(f.Prefetch)
	o.Copiers, o.ChunkBytes = pipeline.First(f.Copiers), pipeline.First(f.Chunk)
	return o, f.checkPlaces(cmd, f.Paths(args))
}

func runFeed(cmd *cobra.Command, f *feedFlags, args []string) error {
	options, err := f.options(cmd, args)
	if err != nil {
		return err
	}
	prepare := func(ds dataset.Dataset) error {
		if err := f.Prepare(cmd, ds, options.Batch, &options); err != nil {
			return err
		}
		return f.loadState(&options)
	}
	return f.Use(cmd, args, prepare, func(in *pipeline.Input) error { return f.feed(cmd, in, options) })
}

// feed feeds what was opened, and reports.
func (f *feedFlags) feed(cmd *cobra.Command, in *pipeline.Input, options loader.Options) (err error) {
	var report *feed.Report
	run := feed.Options{Checksum: f.checksum, StopAfter: f.stopAfter, Progress: newLive(in.Line).show}
	var lines *cli.LineFile
	if f.digests != "" {
		var createErr error
		lines, createErr = cli.CreateLines(f.digests)
		if createErr != nil {
			return fmt.Errorf("the digests cannot be written: %w", createErr)
		}
		defer func() { err = errors.Join(err, lines.Close(report != nil)) }()
		run.Digests = lines
	}
	unread := &unreadSamples{line: in.Line, policy: options.OnError, list: f.listErrors, keep: f.json}
	if options.OnError != loader.Fail {
		options.Decide = unread.add
	}
	options.Targets = in.Targets()
	run.Loader = options
	report, err = feed.Run(cmd.Context(), in.Device, in.Dataset, run)
	in.Line.Clear()
	if report != nil {
		unread.finish(report.Errors)
		// The state is not to be ahead of the digests.
		if lines != nil {
			if flushErr := lines.Flush(); flushErr != nil {
				return errors.Join(err, flushErr)
			}
		}
		err = errors.Join(err, f.keepState(in.Line, report.State))
	}
	if err != nil {
		// Who ends a long run by hand still wants to know how it went.
		if report != nil && report.Samples > 0 && errors.Is(err, context.Canceled) && !f.json {
			err = errors.Join(err, cli.PrintText(cmd, newFeedOutput(in, report, unread).print))
		}
		return err
	}
	if report.Samples == 0 && options.Resume != nil {
		in.Line.Message("Nothing is left: the state of --resume is at the end of %s; more --epochs go on behind it",
			units.Count(options.Epochs, "epoch"))
	}
	out := newFeedOutput(in, report, unread)
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}
