package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

func layerOf(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if isNumber(part) {
			return strings.Join(parts[:i+1], ".")
		}
	}
	if len(parts) > 1 {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, ".")
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// compareNames compares names part by part, numbers by their value.
func compareNames(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		order := cmp.Compare(x[i], y[i])
		if isNumber(x[i]) && isNumber(y[i]) {
			m, n := strings.TrimLeft(x[i], "0"), strings.TrimLeft(y[i], "0")
			order = cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n), order)
		}
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(x), len(y))
}

// place divides tensors among n targets.
func (o *Options) place(tensors []safetensors.Tensor, n int) ([][]safetensors.Tensor, error) {
	shares := make([][]safetensors.Tensor, n)
	switch {
	case o.Place != nil:
		for _, t := range tensors {
			i := o.Place(t.Name)
			if i < 0 || i >= n {
				return nil, fmt.Errorf("%w: Place says %d of %.80q, and there are %d targets", ErrArgument, i, t.Name, n)
			}
			shares[i] = append(shares[i], t)
		}
	case n == 1:
		shares[0] = tensors
	default:
		total, before := int64(0), int64(0)
		for _, t := range tensors {
			total += t.Bytes
		}
		for _, l := range Layers(tensors) {
			// By its middle, so that each target has as much too little as too
			// much.
			bytes := l.Bytes()
			i := 0
			if total > 0 {
				i = min(n-1, int(float64(before+bytes/2)/float64(total)*float64(n)))
			}
			shares[i] = append(shares[i], l.Tensors...)
			before += bytes
		}
	}
	return shares, nil
}
