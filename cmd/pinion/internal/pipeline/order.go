package pipeline

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// Samplers are the values of --sampler.
var Samplers = []string{"sequential", "random", "replacement", "balanced", "length", "blocks"}

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

// order sets the order of samples in o.
func (f *Flags) order(ds dataset.Dataset, batch int, o *loader.Options) (err error) {
	switch f.Sampler {
	case "random":
		o.Shuffle = true
	case "replacement":
		o.Sampler, err = sampler.NewRandomWithReplacement(ds.Len(), ds.Len(), f.Seed)
	case "balanced":
		o.Sampler, err = balanced(ds, f.Seed)
	case "length":
		o.Batches, err = sampler.NewByLength(lengths(ds), sampler.ByLengthOptions{Size: batch, DropLast: f.dropLast, Seed: f.Seed})
		if !f.dropLast {
			o.Batch = min(batch, ds.Len()) // none is larger
		}
		o.DropLast = false
	case "blocks":
		o.Sampler, err = blocks(ds, f.Seed)
	default:
		o.Shuffle = f.shuffle
	}
	return err
}

// balanced draws samples so that every class has the same chance.
func balanced(ds dataset.Dataset, seed uint64) (sampler.Sampler, error) {
	size := map[int32]int{}
	for i := range ds.Len() {
		size[ds.Label(i)]++
	}
	if len(size) == 1 {
		return nil, fmt.Errorf("--sampler balanced: the samples are of one class only, or have none")
	}
	weights := make([]float64, ds.Len())
	for i := range weights {
		weights[i] = 1 / float64(size[ds.Label(i)])
	}
	return sampler.NewWeighted(weights, ds.Len(), seed)
}

// blockGroup is how many shards are mixed with each other.
const blockGroup = 8

// blocks visits shards in random order, and the samples of a few together.
func blocks(ds dataset.Dataset, seed uint64) (sampler.Sampler, error) {
	sharded, ok := dataset.As[interface{ Shards() []int }](ds)
	if !ok || sharded.Shards() == nil {
		return nil, fmt.Errorf("--sampler blocks: the samples are not in shards")
	}
	return sampler.NewBlocks(sharded.Shards(), blockGroup, seed)
}

// lengths is the length of every sample.
func lengths(ds dataset.Dataset) []int {
	list := make([]int, ds.Len())
	for i := range list {
		list[i] = dataset.Length(ds, i)
	}
	return list
}
