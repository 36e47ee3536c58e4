package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	inputFlags
	batch, workers, prefetch, epochs         int
	rank, world, stopAfter                   int
	seed                                     uint64
	shuffle, dropLast, noPin, checksum, json bool
	unordered                                bool
	sampler, dtype                           string
	decode                                   string
	mixup                                    float64
	saveState, resume, digests               string
	sampleTimeout                            time.Duration
	pinBudget, chunk                         size
	copiers                                  int
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
		Args: datasetArgs,
	}
	var f feedFlags
	f.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.batch, "batch", 64, "samples in a batch")
	flags.Float64Var(&f.mixup, "mixup", 0, "mix pairs of images by weights from Beta(`ALPHA`, ALPHA) (default: none)")
	flags.StringVar(&f.decode, "decode", "auto", "where JPEGs are decoded: cpu, gpu, or auto for a GPU with JPEG engines")
	flags.IntVar(&f.workers, "workers", 0, "goroutines that read and decode (default: one a processor)")
	flags.IntVar(&f.prefetch, "prefetch", 0, "batches read ahead (default: 4, or 2 to 4 that fit into 128 MiB)")
	flags.IntVar(&f.epochs, "epochs", 1, "passes over the dataset")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the order and of everything random about samples")
	flags.BoolVar(&f.shuffle, "shuffle", false, "visit the samples of each epoch in random order")
	flags.BoolVar(&f.dropLast, "drop-last", false, "leave out a last batch that is not full")
	flags.StringVar(&f.dtype, "dtype", "", "element type on the device: f32, f16, bf16, u8 or u16 (default: f32 for photos and for u8 and u16 arrays of HxWx1..4, else the file's own)")
	flags.BoolVar(&f.noPin, "no-pin", false, "leave host memory pageable, and copy it through pinned chunks")
	flags.Var(&f.pinBudget, "pin-budget", "most bytes of pinned memory (default: a quarter of what is free)")
	flags.IntVar(&f.copiers, "copiers", 0, "goroutines that copy memory that is not pinned (default: one a processor, at most 12)")
	flags.Var(&f.chunk, "chunk", "largest piece that a copier moves at once (default 2MiB)")
	flags.StringVar(&f.sampler, "sampler", "sequential", "order of samples: "+strings.Join(orders, ", "))
	flags.IntVar(&f.rank, "rank", 0, "number of this process among --world")
	flags.IntVar(&f.world, "world", 1, "processes that share every epoch")
	flags.BoolVar(&f.unordered, "unordered", false, "take the batches of an epoch as they are complete")
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
func (f *feedFlags) options(cmd *cobra.Command, args []string) (loader.Options, error) {
	o := loader.Options{
		Batch: f.batch, Workers: f.workers, Prefetch: f.prefetch, Epochs: f.epochs,
		Seed: f.seed, DropLast: f.dropLast, PinBudget: int64(f.pinBudget),
		Copiers: f.copiers, ChunkBytes: int64(f.chunk),
		Unordered: f.unordered, SampleTimeout: f.sampleTimeout, Mixup: f.mixup,
		OnError: loader.ErrorPolicy(f.onError),
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
	}{{"batch", f.batch}, {"workers", f.workers}, {"prefetch", f.prefetch}, {"epochs", f.epochs}, {"copiers", f.copiers}} {
		if v.value < 1 && cmd.Flags().Changed(v.name) {
			return o, badUsage(cmd, "--%s is %d, but must be at least 1", v.name, v.value)
		}
	}
	if err := f.checkOrder(cmd); err != nil {
		return o, err
	}
	if err := f.checkPlaces(cmd, slices.Concat(args, f.targets)); err != nil {
		return o, err
	}
	if f.sampleTimeout < 0 {
		return o, badUsage(cmd, "--sample-timeout is %v, but must not be negative", f.sampleTimeout)
	}
	switch f.dtype {
	case "":
	case "f32", "f16", "bf16", "u8", "u16":
		o.DType, _ = dtype.Parse(f.dtype)
	default:
		return o, badUsage(cmd, "--dtype is %q, but must be f32, f16, bf16, u8 or u16", f.dtype)
	}
	if f.noPin {
		o.Pin = loader.PinNever
	}
	return o, nil
}

// checkBits fails for photos of other bits than --dtype wants.
func (f *feedFlags) checkBits(cmd *cobra.Command, ds dataset.Dataset) error {
	if _, photos := ds.(*dataset.Images); !photos {
		return nil
	}
	switch {
	case f.dtype == "u16" && f.depth == 8:
		return badUsage(cmd, "--dtype u16 leaves samples as they are, but photos are decoded to 8 bits: add --depth 16, or take --dtype u8")
	case f.dtype == "u8" && f.depth == 16:
		return badUsage(cmd, "--dtype u8 leaves samples as they are, but --depth is 16: leave that out, or take --dtype u16")
	}
	return nil
}

func runFeed(cmd *cobra.Command, f *feedFlags, args []string) error {
	options, err := f.options(cmd, args)
	if err != nil {
		return err
	}
	prepare := func(ds dataset.Dataset) error {
		if err := f.checkBits(cmd, ds); err != nil {
			return err
		}
		if err := f.order(ds, &options); err != nil {
			return err
		}
		return f.loadState(&options)
	}
	return f.use(cmd, args, prepare, func(in *input) error { return f.feed(cmd, in, options) })
}

// feed feeds what was opened, and reports.
func (f *feedFlags) feed(cmd *cobra.Command, in *input, options loader.Options) (err error) {
	var report *feed.Report
	run := feed.Options{Checksum: f.checksum, StopAfter: f.stopAfter, Progress: newLive(in.line).show}
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
	unread := unreadReporter{line: in.line, policy: options.OnError}
	if options.OnError != loader.Fail {
		options.Decide = unread.add
	}
	options.Targets = in.targets()
	run.Loader = options
	report, err = feed.Run(cmd.Context(), in.dev, in.ds, run)
	in.line.clear()
	if report != nil {
		unread.finish(report.Errors)
		// The state is not to be ahead of the digests.
		if flushErr := lines.flush(); flushErr != nil {
			return errors.Join(err, flushErr)
		}
		err = errors.Join(err, f.keepState(in.line, report.State))
	}
	if err != nil {
		// Who ends a long run by hand still wants to know how it went.
		if report != nil && report.Samples > 0 && errors.Is(err, context.Canceled) && !f.json {
			err = errors.Join(err, printText(cmd, newFeedOutput(in, report).print))
		}
		return err
	}
	switch {
	case report.Samples > 0:
	case options.Resume == nil:
		share := ""
		if options.World > 1 {
			share = fmt.Sprintf(" for each of %d processes", options.World)
		}
		return fmt.Errorf("nothing was fed: %d samples make no full batch of %d%s; take a smaller --batch, or leave out --drop-last",
			in.ds.Len(), options.Batch, share)
	default:
		in.line.message("Nothing is left: the state of --resume is at the end of %s; more --epochs go on behind it",
			counted(int64(options.Epochs), "epoch", "epochs"))
	}
	out := newFeedOutput(in, report)
	if f.json {
		return printJSON(cmd, out)
	}
	return printText(cmd, out.print)
}

// unreadReporter names the first samples that could not be read.
type unreadReporter struct {
	line   *progress
	policy loader.ErrorPolicy
	named  []visit
}

// visit is a sample in an epoch.
type visit struct{ epoch, index int }

const namedUnread = 10

// add names a sample, unless it was tried before in the place of another one.
func (u *unreadReporter) add(err *loader.SampleError) loader.ErrorPolicy {
	v := visit{err.Epoch, err.Index}
	if len(u.named) < namedUnread && !slices.Contains(u.named, v) {
		u.named = append(u.named, v)
		u.line.message("%s: %v", u.verb(), err)
	}
	return u.policy
}

// finish counts those of all that were not named.
func (u *unreadReporter) finish(all int64) {
	if more := all - int64(len(u.named)); more > 0 {
		u.line.message("%s: %d more", u.verb(), more)
	}
}

func (u *unreadReporter) verb() string {
	if u.policy == loader.Replace {
		return "replaced"
	}
	return "skipped"
}
