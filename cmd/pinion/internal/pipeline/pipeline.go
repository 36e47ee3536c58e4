package pipeline

import (
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/recipe"
	"github.com/pinion-gpu/pinion/loader"
)

// Flags describe a pipeline: what is read, the order it is read in, what
// becomes of it, and where it goes. feed runs a pipeline and tune finds the best
// settings for it, so they share these flags. A new one is declared in Register
// and takes effect in Options.
type Flags struct {
	datasetFlags
	device *string

	// What tune searches for: feed takes one value of each.
	Batch, Workers, Prefetch, Copiers []int
	Chunk                             []int64

	dtype         string
	mixup         float64
	dropLast      bool
	unordered     bool
	onError       string
	sampleTimeout time.Duration

	shuffle     bool
	Sampler     string
	Seed        uint64
	rank, world int

	decode       string
	cpuShare     string
	noPin        bool
	pinBudget    int64
	deviceBudget int64
}

// searchable says what the flags mean that tune searches for: their usage when
// they take one value, and when they take several.
type searchable struct{ one, several string }

func (s searchable) usage(several bool) string {
	if several {
		return s.several
	}
	return s.one
}

var (
	batchUsage    = searchable{"samples in a batch; auto: as many as the device has room for", "samples in a batch, or sizes to choose from"}
	workersUsage  = searchable{"goroutines that read and decode (default: one a processor)", "goroutines that read and decode, or numbers to choose from (default: powers of two up to twice the processors)"}
	prefetchUsage = searchable{"batches read ahead (default: 4, or 2 to 4 that fit into 128 MiB)", "batches read ahead, or numbers to choose from (default: 1,2,4,8)"}
	copiersUsage  = searchable{"goroutines that copy memory that is not pinned (default: one a processor, at most 12)", "goroutines that copy memory that is not pinned, or numbers to choose from (default: powers of two up to the processors, at most 16)"}
	chunkUsage    = searchable{"largest piece that a copier moves at once (default: 2MiB)", "largest piece that a copier moves at once, or sizes to choose from (default: 512KiB,2MiB)"}
)

// Register declares the flags. Several says whether those that can be searched
// for take several values.
func (f *Flags) Register(cmd *cobra.Command, several bool) {
	set := cmd.Flags()
	flags.Group(set, "Dataset", func() {
		f.datasetFlags.register(cmd)
		flags.Choice(set, &f.onError, "on-error", "fail", recipe.Words(recipe.Policies), "when a sample cannot be read: fail, skip it, or replace it with another one")
		set.DurationVar(&f.sampleTimeout, "sample-timeout", 0, "longest `TIME` to read a sample, such as 10s (default: no limit)")
	})
	flags.Group(set, "Order", func() {
		set.BoolVar(&f.shuffle, "shuffle", false, "visit the samples of each epoch in random order: --sampler random")
		flags.Choice(set, &f.Sampler, "sampler", "sequential", recipe.Samplers, "order of samples: "+flags.Or(recipe.Samplers))
		set.Uint64Var(&f.Seed, "seed", 0, "seed of the order and of everything random about samples")
		flags.Int(set, &f.rank, "rank", 0, flags.AtLeast(0), "number of this process among --world")
		flags.Int(set, &f.world, "world", 1, flags.AtLeast(1), "processes that share every epoch")
	})
	flags.Group(set, "Batches", func() {
		flags.Ints(set, &f.Batch, "batch", []int{64}, flags.AtLeast(1).Or("auto", loader.AutoBatch), several, batchUsage.usage(several))
		set.BoolVar(&f.dropLast, "drop-last", false, "leave out a last batch that is not full")
		set.BoolVar(&f.unordered, "unordered", false, "take the batches of an epoch as they are complete")
		flags.Choice(set, &f.dtype, "dtype", "", recipe.DTypes, "element type on the device: "+flags.Or(recipe.DTypes)+" (default: f32 for photos and for u8 and u16 arrays of HxWx1..4, else the file's own)")
		set.Float64Var(&f.mixup, "mixup", 0, "mix pairs of images by weights from Beta(`ALPHA`, ALPHA) (default: none)")
	})
	flags.Group(set, "Device and speed", func() {
		f.device = cli.DeviceFlag(cmd)
		flags.Choice(set, &f.decode, "decode", "auto", recipe.Words(recipe.DecodePlaces), "where JPEGs are decoded: cpu, gpu, or auto for a GPU with JPEG engines")
		set.StringVar(&f.cpuShare, "cpu-share", "0", "`PART` of the JPEGs, 0 to 1, that workers decode although the GPU would; auto: what those that are idle can, while the program waits")
		flags.Ints(set, &f.Workers, "workers", nil, flags.AtLeast(1), several, workersUsage.usage(several))
		flags.Ints(set, &f.Prefetch, "prefetch", nil, flags.AtLeast(1), several, prefetchUsage.usage(several))
		set.BoolVar(&f.noPin, "no-pin", false, "leave host memory pageable, and copy it through pinned chunks")
		flags.Size(set, &f.pinBudget, "pin-budget", 0, "most bytes of pinned memory (default: a quarter of what is free)")
		flags.Size(set, &f.deviceBudget, "device-budget", 0, "most bytes of device memory for batches (default: what is free)")
		flags.Ints(set, &f.Copiers, "copiers", nil, flags.AtLeast(1), several, copiersUsage.usage(several))
		flags.Sizes(set, &f.Chunk, "chunk", nil, several, chunkUsage.usage(several))
	})
}

// Options checks the flags and makes the loader's options of them, except for
// what tune searches for, and for what depends on the dataset: see [Flags.Prepare].
func (f *Flags) Options(cmd *cobra.Command) (loader.Options, error) {
	o := loader.Options{
		OnError: recipe.Policies[f.onError], SampleTimeout: f.sampleTimeout,
		Seed: f.Seed, Rank: f.rank, World: f.world,
		DropLast: f.dropLast, Unordered: f.unordered, Mixup: f.mixup,
		Decode: recipe.DecodePlaces[f.decode], PinBudget: f.pinBudget, DeviceBudget: f.deviceBudget,
	}
	if f.dtype != "" {
		o.DType, _ = dtype.Parse(f.dtype) // one of recipe.DTypes
	}
	if f.noPin {
		o.Pin = loader.PinNever
	}
	if f.sampleTimeout < 0 {
		return o, cli.BadUsage(cmd, "--sample-timeout is %v, but must not be negative", f.sampleTimeout)
	}
	if f.mixup < 0 || f.mixup > maxMixup {
		return o, cli.BadUsage(cmd, "--mixup is %v, but must be from 0 to %d", f.mixup, maxMixup)
	}
	if f.cpuShare == "auto" {
		o.CPUShare = loader.AutoShare
	} else if share, err := strconv.ParseFloat(f.cpuShare, 64); err == nil && share >= 0 && share <= 1 {
		o.CPUShare = share
	} else {
		return o, cli.BadUsage(cmd, "--cpu-share is %s, but must be from 0 to 1, or auto", f.cpuShare)
	}
	if slices.Contains(f.Batch, loader.AutoBatch) {
		switch {
		case f.Sampler == "length":
			return o, cli.BadUsage(cmd, "--sampler length makes batches of a size that it is given: take a number for --batch instead of auto")
		case f.world > 1:
			return o, cli.BadUsage(cmd, "--batch auto would give each process of --world %d another size: take a number", f.world)
		}
	}
	return o, f.checkOrder(cmd)
}

const maxMixup = 4 // the loader's

// checkOrder checks the flags that say in which order samples come.
func (f *Flags) checkOrder(cmd *cobra.Command) error {
	switch {
	case f.shuffle && cmd.Flags().Changed("sampler") && f.Sampler != "random":
		return cli.BadUsage(cmd, "--shuffle means --sampler random, but --sampler is %s", f.Sampler)
	case f.rank >= f.world:
		return cli.BadUsage(cmd, "--rank is %d, but must be 0 to %d with --world %d", f.rank, f.world-1, f.world)
	}
	return nil
}

// Prepare sets what depends on the dataset in o, for batches of that size.
func (f *Flags) Prepare(cmd *cobra.Command, ds dataset.Dataset, batch int, o *loader.Options) error {
	if err := recipe.CheckDepth(ds, o.DType, "--depth", "--dtype"); err != nil {
		return cli.BadUsage(cmd, "%w", err)
	}
	word := f.Sampler
	if f.shuffle {
		word = "random"
	}
	return recipe.Order(o, ds, word, batch)
}

// Paths are all that is read: the dataset, if args names one, and what goes with
// it.
func (f *Flags) Paths(args []string) []string { return slices.Concat(args, f.targets) }

// First is the value of a flag that takes one; 0: it was not given.
func First[T int | int64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	return values[0]
}
