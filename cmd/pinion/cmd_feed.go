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
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
)

// feedFlags are the flags of pinion feed.
type feedFlags struct {
	pipeline.Flags
	epochs, stopAfter, listErrors int
	saveState, resume, digests    string
	checksum, json                bool
	trace                         *cli.Trace
}

func newFeed() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed [DATASET]",
		Short: "Feed a dataset to a device and report how fast it went",
		Long: `Feed a dataset to a device, batch by batch, and report how fast it went.

` + pipeline.DatasetHelp() + `

Photos are scaled so that the shorter side is --size, and cropped to the centre
square. --transform changes that:

  rrc:224,flip,jitter              random crop, random mirroring, random colours
  resize:256,crop:224              shorter side scaled to 256, centre crop
  stretch:128x96,bicubic           stretched to that size, with another filter
  rrc:224,scale:0.3,1,flip:0.2,jitter:0.4,0.4,0.4,0.1

Images arrive on the device as normalised floats. For depth maps, X-rays and
microscopy, --depth 16 keeps all 16 bits, --channels 1 keeps or makes one
channel, and --dtype u16 leaves the values as they are.

--targets adds a second dataset: its sample i comes with sample i. A folder of
PNGs is read as masks, which are matched to the photos by name, then cropped and
mirrored like them. Their values do not change.

--batch auto takes the largest batch of which the device has room for all
buffers, and leaves a sixteenth of what is free. On a device of your own that is
much: --device-budget says how much batches may take.

The order of the samples depends only on --sampler, --seed and the epoch:

  sequential    from first to last
  random        each sample once, shuffled
  replacement   drawn at random, with replacement
  balanced      drawn so that all classes are equally likely
  length        batches of samples of similar length
  blocks        shards at random, a few of them mixed; each is fetched once

--rank and --world select one process's part, as PyTorch's DistributedSampler
does.

--save-state saves the position when the run ends, also after an interrupt or
--stop-after. --resume continues with the batch that would have come next.
--digests writes one line of JSON for each batch: its epoch, its number,
its samples, and the SHA-256 of its bytes and those of its targets, as read back
from the device.

Each batch is released as soon as it arrives, so the rate is the most that the
pipeline can deliver. "It waited for data" is how long a device with no other
work would have been idle.

An interrupt ends the run after the current batch and prints the report.`,
		Example: `  pinion feed
  pinion feed ~/photos --batch 128 --workers 16 --dtype bf16 --shuffle
  pinion feed features.npy --device host:2GiB --json
  pinion feed ~/photos --batch auto --device-budget 2GiB
  pinion feed tokens.jsonl --field tokens --label class
  pinion feed 'https://example.org/train-{000..127}.tar' --sampler blocks
  pinion feed images.bin --raw 256x256x3,u8 --shuffle
  pinion feed ~/photos --transform rrc:224,flip,jitter --mixup 0.2 --decode gpu
  pinion feed ~/voc/photos --targets ~/voc/masks --transform rrc:224,flip,jitter
  pinion feed ~/depth --depth 16 --channels 1 --dtype f16
  pinion feed ~/photos --on-error skip --checksum
  pinion feed ~/photos --shuffle --stop-after 100 --save-state state.json
  pinion feed ~/photos --shuffle --resume state.json --digests batches.jsonl
  pinion feed ~/photos --shuffle --rank 0 --world 4
  pinion feed ~/photos --stop-after 200 --trace trace.json`,
		Args: pipeline.DatasetArgs,
	}
	var f feedFlags
	f.Register(cmd, false)
	set := cmd.Flags()
	flags.Group(set, "Run", func() {
		flags.Int(set, &f.epochs, "epochs", 1, flags.AtLeast(1), "passes over the dataset")
		flags.Int(set, &f.stopAfter, "stop-after", 0, flags.AtLeast(0), "stop after this many batches (default: at the end)")
		set.StringVar(&f.saveState, "save-state", "", "`FILE` to save the position to when the run ends")
		set.StringVar(&f.resume, "resume", "", "`FILE` of a saved position to continue from")
	})
	flags.Group(set, "Report", func() {
		set.BoolVar(&f.checksum, "checksum", false, "read every batch back from the device and hash the batches in order")
		set.StringVar(&f.digests, "digests", "", "`FILE` for a line of JSON about each batch")
		flags.Int(set, &f.listErrors, "list-errors", 10, flags.AtLeast(0), "how many skipped or replaced samples to name (--json lists all)")
		f.trace = cli.TraceFlag(set)
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	cmd.RunE = f.trace.Run(func(cmd *cobra.Command, args []string) error { return runFeed(cmd, &f, args) })
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
	return f.Use(cmd, args, prepare, func(in *pipeline.Input) error {
		err := f.feed(cmd, in, options)
		var batch *loader.BatchError
		if errors.As(err, &batch) {
			return f.noRoom(batch)
		}
		if errors.Is(err, loader.ErrState) {
			return fmt.Errorf("%w; --resume needs the dataset and the flags that %s was saved with", err, f.resume)
		}
		return err
	})
}

// noRoom says what a batch needs that does not fit, and what would, in terms of
// the flags.
func (f *feedFlags) noRoom(e *loader.BatchError) error {
	flag := fmt.Sprintf("--batch %d", e.Batch)
	if asked := pipeline.First(f.Batch); asked != e.Batch {
		flag = fmt.Sprintf("a batch of %s", units.Count(e.Batch, "sample"))
	}
	have := "are free"
	if e.Budget {
		have = "are allowed by --device-budget"
	}
	advice := e.WhatFits()
	if e.Fits > 0 {
		advice = e.WhatFits() + ": try --batch auto"
	}
	return fmt.Errorf("%w: %s needs %s on %s, where %s %s; %s", device.ErrOutOfMemory,
		flag, units.Bytes(e.NeedBytes), e.Device, units.Bytes(e.FreeBytes), have, advice)
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
		defer func() { err = errors.Join(err, cli.Lost(lines.Close(report != nil))) }()
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
				return errors.Join(err, cli.Lost(flushErr))
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
	if ahead := report.Slabs - 1; ahead >= 0 && ahead < options.Prefetch {
		in.Line.Message("--prefetch %d: no more than %s could be read ahead; there are no more, or they have no room in memory", options.Prefetch, units.Count(ahead, "batch"))
	}
	if report.Samples == 0 && options.Resume != nil {
		in.Line.Message("Nothing left to feed: the state of --resume is at the end of %s; raise --epochs to continue",
			units.Count(options.Epochs, "epoch"))
	}
	out := newFeedOutput(in, report, unread)
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}
