package recipe_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/recipe"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

func memory(t *testing.T, labels ...int32) dataset.Dataset {
	t.Helper()
	ds, err := dataset.NewMemoryOf(make([]float32, 2*len(labels)), []int{2}, dataset.MemoryOptions{Labels: labels})
	testkit.OK(t, err)
	return ds
}

// Every word sets what it says, and nothing else.
func TestOrder(t *testing.T) {
	ds := memory(t, 0, 0, 0, 1)
	for _, word := range recipe.Samplers {
		o := loader.Options{Shuffle: word == "sequential"}
		err := recipe.Order(&o, ds, word, 3)
		if word == "blocks" {
			if !errors.Is(err, dataset.ErrArgument) || !strings.Contains(err.Error(), "shards") {
				t.Errorf("blocks of samples that are in no shards: %v", err)
			}
			continue
		}
		testkit.OK(t, err)
		own := word == "replacement" || word == "balanced"
		if o.Shuffle != (word == "random") || (o.Sampler != nil) != own || (o.Batches != nil) != (word == "length") {
			t.Errorf("%s: %+v", word, o)
		}
	}
	o := loader.Options{Shuffle: true}
	testkit.OK(t, recipe.Order(&o, ds, "", 3))
	if !o.Shuffle || o.Sampler != nil || o.Batches != nil {
		t.Errorf("no word: %+v", o)
	}
	if err := recipe.Order(&o, ds, "sorted", 3); !errors.Is(err, dataset.ErrArgument) || !strings.Contains(err.Error(), `"sorted"`) {
		t.Errorf("a word that there is not: %v", err)
	}
	if err := recipe.Order(&o, memory(t, 1, 1), "balanced", 3); !errors.Is(err, dataset.ErrArgument) {
		t.Errorf("balanced, of one class: %v", err)
	}
	if err := recipe.Order(&o, memory(t, 1, -1), "balanced", 3); !errors.Is(err, dataset.ErrArgument) {
		t.Errorf("balanced, of one class and no class: %v", err)
	}
	testkit.OK(t, recipe.Order(&o, memory(t, 1, -1, 0), "balanced", 3))
	for epoch := range 100 {
		for position := range o.Sampler.Len() {
			if o.Sampler.At(epoch, position) == 1 {
				t.Fatalf("epoch %d: a sample of no class is drawn", epoch)
			}
		}
	}
}

func TestFind(t *testing.T) {
	p, err := recipe.Find("on_error", "skip", recipe.Policies)
	if p != loader.Skip || err != nil {
		t.Errorf("skip: %v, %v", p, err)
	}
	_, err = recipe.Find("on_error", "skp", recipe.Policies)
	if !errors.Is(err, dataset.ErrArgument) || !strings.Contains(err.Error(), `on_error is "skp", but must be one of fail, replace, skip`) {
		t.Error(err)
	}
}
