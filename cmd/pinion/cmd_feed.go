package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/feed"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader"
)

// feedFlags are the flags of pinion feed.
type feedFlags struct {
	datasetFlags
	device                                   *string
	batch, workers, prefetch, epochs         int
	rank, world, stopAfter                   int
	seed                                     uint64
	shuffle, dropLast, noPin, checksum, json bool
	unordered                                bool
	sampler, dtype, onError                  string
	decode                                   string
	mixup                                    float64
	saveState, resume, digests               string
	sampleTimeout                            time.Duration
	pinBudget                                size
}

func newFeed() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "feed [DATASET]",
		Short: "Feed a dataset to a device and report how fast it went",
		Long: `Feed a dataset to a device, batch by batch, and report how fast it went.

` + datasetHelp + `

Photos are scaled so that the shorter side is --size and cut to the centre
square; images become normalised floats on the device. --transform does
something else with photos:

  rrc:224,flip,jitter              a random part, mirrored or not, other colours
  resize:256,crop:224              the middle, of the shorter side scaled to 256
  stretch:128x96,bicubic           all of it, by another filter
  rrc:224,scale:0.3,1,flip:0.2,jitter:0.4,0.4,0.4,0.1

The order of samples depends on --sampler, --seed and the epoch alone:
sequential, random (each sample once), replacement (drawn at random), balanced
(drawn so that classes are equally likely), length (batches of samples of
similar length), or blocks (shards at random, the samples of a few of them
mixed, so that each shard is fetched once). --rank and --world take one process's part of it, by the rules
of PyTorch's DistributedSampler.

--save-state writes where the run is when it ends, also by an interrupt or
--stop-after, and --resume goes on there with the batches that would have come.
--digests writes a line of JSON for each batch: epoch, batch, samples, and the
SHA-256 of its bytes as read back from the device.

Batches are released as soon as they arrive, so the rate is the most that the
pipeline gives; the share of time "waited for data" is what a device with
nothing else to do would have stood idle.`,
		Example: `  pinion feed
  pinion feed ~/photos --batch 128 --workers 16 --dtype bf16 --shuffle --epochs 3
  pinion feed features.npy --device host:2GiB --json
  pinion feed tokens.jsonl --field tokens --label class
  pinion feed https://example.org/train-{000..127}.tar --sampler blocks
  pinion feed images.bin --raw 256x256x3,u8 --shuffle
  pinion feed ~/photos --transform rrc:224,flip,jitter --mixup 0.2 --decode gpu
  pinion feed ~/photos --on-error skip --checksum
  pinion feed ~/photos --sampler random --rank 0 --world 4 --stop-after 100 --save-state state.json
  pinion feed ~/photos --sampler random --rank 0 --world 4 --resume state.json --digests batches.jsonl`,
		Args: datasetArgs,
	}
	var f feedFlags
	f.device = deviceFlag(cmd)
	f.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.batch, "batch", 64, "samples in a batch")
	flags.Float64Var(&f.mixup, "mixup", 0, "mix pairs of images by weights from Beta(`ALPHA`, ALPHA) (default: none)")
	flags.StringVar(&f.decode, "decode", "auto", "where JPEGs are decoded: cpu, gpu, or auto for a GPU with JPEG engines")
	flags.IntVar(&f.workers, "workers", 0, "goroutines that read and decode (default: one a processor)")
	flags.IntVar(&f.prefetch, "prefetch", 0, "batches read ahead (default 4)")
	flags.IntVar(&f.epochs, "epochs", 1, "passes over the dataset")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the order and of everything random about samples")
	flags.BoolVar(&f.shuffle, "shuffle", false, "visit the samples of each epoch in random order")
	flags.BoolVar(&f.dropLast, "drop-last", false, "leave out a last batch that is not full")
	flags.StringVar(&f.dtype, "dtype", "", "element type on the device: f32, f16, bf16 or u8 (default: f32 for photos and for u8 arrays of HxWx1..4, else the file's own)")
	flags.BoolVar(&f.noPin, "no-pin", false, "leave host memory pageable")
	flags.Var(&f.pinBudget, "pin-budget", "most bytes of pinned memory (default: a quarter of what is free)")
	flags.StringVar(&f.sampler, "sampler", "sequential", "order of samples: "+strings.Join(orders, ", "))
	flags.IntVar(&f.rank, "rank", 0, "number of this process among --world")
	flags.IntVar(&f.world, "world", 1, "processes that share every epoch")
	flags.BoolVar(&f.unordered, "unordered", false, "take the batches of an epoch as they are complete")
	flags.StringVar(&f.onError, "on-error", "fail", "when a sample cannot be read: fail, skip it, or replace it by another; both are counted")
	flags.DurationVar(&f.sampleTimeout, "sample-timeout", 0, "longest time to read a sample, such as 10s (default: no limit)")
	flags.IntVar(&f.stopAfter, "stop-after", 0, "stop behind this many batches (default: at the end)")
	flags.StringVar(&f.saveState, "save-state", "", "`FILE` to write where the run is to, when it ends")
	flags.StringVar(&f.resume, "resume", "", "`FILE` of a state to go on from")
	flags.StringVar(&f.digests, "digests", "", "`FILE` to write a line of JSON for each batch to")
	flags.BoolVar(&f.checksum, "checksum", false, "read every batch back from the device and hash the batches in order")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runFeed(cmd, &f, args) }
	return cmd
}

// options checks the flags and makes the loader's options of them.
func (f *feedFlags) options(cmd *cobra.Command) (loader.Options, error) {
	o := loader.Options{
		Batch: f.batch, Workers: f.workers, Prefetch: f.prefetch, Epochs: f.epochs,
		Seed: f.seed, DropLast: f.dropLast, PinBudget: int64(f.pinBudget),
		Unordered: f.unordered, SampleTimeout: f.sampleTimeout, Mixup: f.mixup,
	}
	places := map[string]loader.DecodePlace{"auto": loader.DecodeAuto, "cpu": loader.DecodeCPU, "gpu": loader.DecodeGPU}
	place, known := places[f.decode]
	if !known {
		return o, badUsage(cmd, "--decode is %q, but must be auto, cpu or gpu", f.decode)
	}
	o.Decode = place
	for _, v := range []struct {
		name  string
		value int
	}{{"batch", f.batch}, {"workers", f.workers}, {"prefetch", f.prefetch}, {"epochs", f.epochs}} {
		if v.value < 1 && cmd.Flags().Changed(v.name) {
			return o, badUsage(cmd, "--%s is %d, but must be at least 1", v.name, v.value)
		}
	}
	if err := f.checkOrder(cmd); err != nil {
		return o, err
	}
	if err := f.checkPlaces(cmd); err != nil {
		return o, err
	}
	if f.sampleTimeout < 0 {
		return o, badUsage(cmd, "--sample-timeout is %v, but must not be negative", f.sampleTimeout)
	}
	switch f.dtype {
	case "":
	case "f32", "f16", "bf16", "u8":
		o.DType, _ = dtype.Parse(f.dtype)
	default:
		return o, badUsage(cmd, "--dtype is %q, but must be f32, f16, bf16 or u8", f.dtype)
	}
	switch f.onError {
	case "fail":
	case "skip":
		o.OnError = loader.Skip
	case "replace":
		o.OnError = loader.Replace
	default:
		return o, badUsage(cmd, "--on-error is %q, but must be fail, skip or replace", f.onError)
	}
	if f.noPin {
		o.Pin = loader.PinNever
	}
	return o, nil
}

func runFeed(cmd *cobra.Command, f *feedFlags, args []string) (err error) {
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

	if err := f.order(ds, &options); err != nil {
		return err
	}
	if err := f.loadState(&options); err != nil {
		return err
	}

	start := time.Now()
	dev, err := openDevice(cmd, *f.device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	opened := time.Since(start)

	var report *feed.Report
	run := feed.Options{Checksum: f.checksum, StopAfter: f.stopAfter, Progress: newLive(line, dev.Info().ID).show}
	var lines *lineFile
	if f.digests != "" {
		var createErr error
		lines, createErr = createLines(f.digests)
		if createErr != nil {
			return fmt.Errorf("there is no place for the digests: %w", createErr)
		}
		defer func() { err = errors.Join(err, lines.close(report != nil)) }()
		run.Digests = lines
	}
	unread := unreadReporter{line: line, policy: options.OnError}
	if options.OnError != loader.Fail {
		options.Decide = unread.add
	}
	run.Loader = options
	report, err = feed.Run(cmd.Context(), dev, ds, run)
	line.clear()
	unread.finish()
	if report != nil {
		// The state is not to be ahead of the digests.
		if flushErr := lines.flush(); flushErr != nil {
			return errors.Join(err, flushErr)
		}
		err = errors.Join(err, f.keepState(line, report.State))
	}
	if err != nil {
		return err
	}
	if report.Samples == 0 && options.Resume == nil {
		return nothingFed(ds, &options, report)
	}
	out := newFeedOutput(dev, ds, path, report, opened)
	if f.json {
		return printJSON(cmd, out)
	}
	return printText(cmd, out.print)
}

// nothingFed says why no sample arrived.
func nothingFed(ds dataset.Dataset, o *loader.Options, r *feed.Report) error {
	if r.Errors > 0 {
		return fmt.Errorf("nothing was fed: none of the samples could be read, %d were left out", r.Errors)
	}
	return fmt.Errorf("nothing was fed: %d samples make no full batch of %d; take a smaller --batch, or leave out --drop-last",
		ds.Len(), o.Batch)
}

// unreadReporter names the first samples that could not be read.
type unreadReporter struct {
	line   *progress
	policy loader.ErrorPolicy
	n      int
}

const namedUnread = 10

func (u *unreadReporter) add(err *loader.SampleError) loader.ErrorPolicy {
	u.n++
	if u.n <= namedUnread {
		u.line.message("%s: %v", u.verb(), err)
	}
	return u.policy
}

func (u *unreadReporter) finish() {
	if u.n > namedUnread {
		u.line.message("%s: %d more", u.verb(), u.n-namedUnread)
	}
}

func (u *unreadReporter) verb() string {
	if u.policy == loader.Replace {
		return "replaced"
	}
	return "skipped"
}
