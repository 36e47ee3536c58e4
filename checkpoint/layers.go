package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
)

// Layer is tensors of a checkpoint that are used together.
type Layer struct {
	Name    string
	Tensors []safetensors.Tensor
}

// Bytes returns the bytes of the layer's tensors in their files.
func (l Layer) Bytes() (n int64) {
	for _, t := range l.Tensors {
		n += t.Bytes
	}
	return n
}

// checkLayers checks layers that a caller chose.
func checkLayers(layers []Layer) error {
	for _, l := range layers {
		for _, t := range l.Tensors {
			if t.File == nil {
				return fmt.Errorf("%w: %.80q of layer %.80q is in no file", ErrArgument, t.Name, l.Name)
			}
		}
	}
	return nil
}

// Layers divides tensors by their names: a layer is what has the same name up
// to its first number ("model.layers.12."), and else what has the same name but
// for the last part ("lm_head.weight", "lm_head.bias"). Layers are in the order
// of their names, in which 2 comes before 10. That is the order of most models
// within their blocks, but not for what comes before and after them: choose
// another if you need it.
func Layers(tensors []safetensors.Tensor) []Layer {
	byName := map[string]int{}
	var layers []Layer
	for _, t := range tensors {
		name := layerOf(t.Name)
		i, ok := byName[name]
		if !ok {
			i = len(layers)
			byName[name] = i
			layers = append(layers, Layer{Name: name})
		}
		layers[i].Tensors = append(layers[i].Tensors, t)
	}
	slices.SortFunc(layers, func(a, b Layer) int { return compareNames(a.Name, b.Name) })
	return layers
}

// layerOf takes no memory, however many parts a name has.
func layerOf(name string) string {
	end := -1
	for part := range strings.SplitSeq(name, ".") {
		end += 1 + len(part)
		if isNumber(part) {
			return name[:end]
		}
	}
	if last := strings.LastIndexByte(name, '.'); last >= 0 {
		return name[:last]
	}
	return name
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// compareNames compares names part by part, numbers by their value.
func compareNames(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, ".")
		y, restB, moreB := strings.Cut(b, ".")
		order := cmp.Compare(x, y)
		if isNumber(x) && isNumber(y) {
			m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			order = cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), order)
		}
		switch {
		case order != 0 || !moreA && !moreB:
			return order
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}

func checkPlace(i int, name string, n int) error {
	if i < 0 || i >= n {
		return fmt.Errorf("%w: Place says %d of %.80q, and there are %s", ErrArgument, i, name, units.Count(n, "target"))
	}
	return nil
}

// place divides tensors among as many targets as there are weights, in
// proportion to these.
func (o *Options) place(tensors []safetensors.Tensor, weights []float64) ([][]safetensors.Tensor, error) {
	n := len(weights)
	shares := make([][]safetensors.Tensor, n)
	switch {
	case o.Place != nil:
		for _, t := range tensors {
			i := o.Place(t.Name)
			if err := checkPlace(i, t.Name, n); err != nil {
				return nil, err
			}
			shares[i] = append(shares[i], t)
		}
	case n == 1:
		shares[0] = tensors
	default:
		total, all := int64(0), 0.0
		for _, t := range tensors {
			total += t.Bytes
		}
		for _, w := range weights {
			all += w
		}
		i, before, end := 0, int64(0), weights[0]
		for _, l := range Layers(tensors) {
			// By its middle, so that each target has as much too little as too
			// much.
			bytes := l.Bytes()
			middle := float64(before+bytes/2) / float64(max(total, 1)) * all
			for i < n-1 && middle >= end {
				i++
				end += weights[i]
			}
			shares[i] = append(shares[i], l.Tensors...)
			before += bytes
		}
	}
	return shares, nil
}
