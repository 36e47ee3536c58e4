package dataset

import (
	"slices"

	"github.com/pinion-gpu/pinion/imaging"
)

// Transforms returns the transforms that make the samples of d, each once, in the
// order of the parts of a chain. It looks behind subsets, chains and maps, where
// [EncodedOf] sees pictures of one transform only. The zero transform stands for
// samples that are no pictures.
func Transforms(d Dataset) []imaging.Transform {
	switch d := d.(type) {
	case Encoded:
		return []imaging.Transform{d.Transform()}
	case *Subset:
		return Transforms(d.dataset)
	case *Map:
		return Transforms(d.dataset)
	case *Concat:
		var all []imaging.Transform
		for _, p := range d.parts {
			for _, t := range Transforms(p) {
				if !slices.Contains(all, t) {
					all = append(all, t)
				}
			}
		}
		return all
	}
	return make([]imaging.Transform, 1)
}
