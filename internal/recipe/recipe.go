// Package recipe knows what the words stand for that describe a pipeline, in the
// flags of the command and in the arguments of the Python package: names of
// orders, policies and places, and paths of targets.
//
//	o.OnError, err = recipe.Find("on-error", "skip", recipe.Policies)
//	err = recipe.Order(&o, ds, "balanced", 64)
//	masks, err := recipe.OpenTarget(ctx, "masks", photos, nil)
package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/loader"
)

// What words there are.
var (
	Samplers     = []string{"sequential", "random", "replacement", "balanced", "length", "blocks"} // see Order
	DTypes       = []string{"f32", "f16", "bf16", "u8", "u16"}                                     // that pictures may have on the device
	Policies     = map[string]loader.ErrorPolicy{"fail": loader.Fail, "skip": loader.Skip, "replace": loader.Replace}
	DecodePlaces = map[string]loader.DecodePlace{"auto": loader.DecodeAuto, "cpu": loader.DecodeCPU, "gpu": loader.DecodeGPU}
)

// Words are the words of a table, sorted.
func Words[T any](table map[string]T) []string { return slices.Sorted(maps.Keys(table)) }

// Find returns what a word of a table stands for. It fails with
// [dataset.ErrArgument], which names what the word is for, and all words.
func Find[T any](what, word string, table map[string]T) (T, error) {
	v, ok := table[word]
	if !ok {
		return v, fmt.Errorf("%w: %s is %q, but must be one of %s", errs.ErrArgument, what, word, strings.Join(Words(table), ", "))
	}
	return v, nil
}

// CheckDepth fails with [dataset.ErrArgument] for photos of other bits than
// those that the element type on the device, U8 or U16, leaves as they are.
// Depth and dtype are how the caller's users write these options.
func CheckDepth(ds dataset.Dataset, t dtype.DType, depthOption, dtypeOption string) error {
	if _, pictures := dataset.As[dataset.Encoded](ds); !pictures {
		return nil
	}
	switch depth := ds.Spec().DType; {
	case t == dtype.U16 && depth == dtype.U8:
		return fmt.Errorf("%w: %s u16 leaves samples as they are, but photos are decoded to 8 bits: add %s 16, or take %[2]s u8", errs.ErrArgument, dtypeOption, depthOption)
	case t == dtype.U8 && depth == dtype.U16:
		return fmt.Errorf("%w: %s u8 leaves samples as they are, but %s is 16: leave that out, or take %[2]s u16", errs.ErrArgument, dtypeOption, depthOption)
	}
	return nil
}
