package recipe

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// Order sets the order of the samples of ds in o, by its word, one of
// [Samplers]; empty: what o.Shuffle says. The seed is o.Seed, and batch the
// size of batches of samples of similar length. It fails with
// [dataset.ErrArgument] for another word, where the dataset has no classes or
// shards that the order needs, and for a stream, which has an order of its own.
func Order(o *loader.Options, ds dataset.Dataset, word string, batch int) (err error) {
	ordered := o.Shuffle && word == "" || word != "" && word != "sequential"
	if ordered && ds.Len() == dataset.UnknownLen {
		return fmt.Errorf("%w: samples of a stream come in its order: nobody knows before its end how many there are; shuffle-buffer mixes those of a window", errs.ErrArgument)
	}
	switch word {
	case "":
	case "sequential":
		o.Shuffle = false
	case "random":
		o.Shuffle = true
	case "replacement":
		o.Sampler, err = sampler.NewRandomWithReplacement(ds.Len(), ds.Len(), o.Seed)
	case "balanced":
		o.Sampler, err = balanced(ds, o.Seed)
	case "length":
		o.Batches, err = sampler.NewByLength(lengths(ds), sampler.ByLengthOptions{Size: batch, DropLast: o.DropLast, Seed: o.Seed})
		if !o.DropLast {
			o.Batch = min(batch, ds.Len()) // none is larger
		}
		o.DropLast = false
	case "blocks":
		o.Sampler, err = blocks(ds, o.Seed)
	default:
		err = fmt.Errorf("%w: no sampler is named %q; there are: %v", errs.ErrArgument, word, Samplers)
	}
	return err
}

// balanced draws samples so that every class has the same chance, and those of no
// class none.
func balanced(ds dataset.Dataset, seed uint64) (sampler.Sampler, error) {
	size := map[int32]int{}
	for i := range ds.Len() {
		if label := ds.Label(i); label >= 0 {
			size[label]++
		}
	}
	if len(size) < 2 {
		return nil, fmt.Errorf("%w: sampler balanced: the samples are of one class only, or have none", errs.ErrArgument)
	}
	weights := make([]float64, ds.Len())
	for i := range weights {
		if n := size[ds.Label(i)]; n > 0 {
			weights[i] = 1 / float64(n)
		}
	}
	return sampler.NewWeighted(weights, ds.Len(), seed)
}

// blockGroup is how many shards are mixed with each other.
const blockGroup = 8

// blocks visits shards in random order, and the samples of a few together.
func blocks(ds dataset.Dataset, seed uint64) (sampler.Sampler, error) {
	sharded, ok := dataset.As[interface{ Shards() []int }](ds)
	if !ok || sharded.Shards() == nil {
		return nil, fmt.Errorf("%w: sampler blocks: the samples are not in shards", errs.ErrArgument)
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
