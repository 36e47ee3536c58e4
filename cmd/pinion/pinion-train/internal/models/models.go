// Package models has the models that pinion train trains, of GoMLX's layers.
package models

import (
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
)

// The models that there are.
const (
	GPT    = "gpt"
	ResNet = "resnet"
)

// Spec says what a model is. What does not go with its kind is 0.
type Spec struct {
	Model  string `json:"model"`
	Layers int    `json:"layers"`
	Width  int    `json:"width"` // of a residual stream, or channels of the first stage

	Heads   int `json:"heads,omitempty"`   // of attention
	Context int `json:"context,omitempty"` // tokens of a sample, but for the last

	ImageSize int `json:"image_size,omitempty"` // side, in pixels
	Classes   int `json:"classes,omitempty"`
}

// Check fails with errs.ErrArgument where there is no such model.
func (s Spec) Check() error {
	var err error
	switch {
	case s.Model == GPT && s.Heads > 0 && s.Width%s.Heads != 0:
		err = fmt.Errorf("a width of %d cannot be shared by %d heads", s.Width, s.Heads)
	case s.Model == ResNet && blocks[s.Layers].counts == nil:
		err = fmt.Errorf("there is no ResNet of %d layers; there are 10, 18, 34 and 50", s.Layers)
	case s.Model == ResNet && s.Classes < 2:
		err = fmt.Errorf("%s; a folder of photos has a folder for each class, and at least two", units.Count(s.Classes, "class"))
	case s.Model != GPT && s.Model != ResNet:
		err = fmt.Errorf("there is no model %q", s.Model)
	case min(s.Layers, s.Width) < 1 || s.Model == GPT && min(s.Heads, s.Context) < 1 || s.Model == ResNet && s.ImageSize < 1:
		err = errors.New("layers, width, heads, context and image size are at least 1")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errs.ErrArgument, err)
	}
	return nil
}

// Build is the model as GoMLX's trainer takes it, and its loss. A GPT takes rows of bytes,
// one longer than its context, and adds its loss itself.
func (s Spec) Build() (train.ModelFn, train.LossFn) {
	if s.Model == GPT {
		return func(scope *model.Scope, _ any, inputs []*graph.Node) []*graph.Node {
			return []*graph.Node{s.gpt(scope.WithInitializer(initial(scope.Store(), gptDeviation)), inputs[0])}
		}, nil
	}
	return func(scope *model.Scope, _ any, inputs []*graph.Node) []*graph.Node {
		return []*graph.Node{s.resnet(scope.WithInitializer(initial(scope.Store(), heDeviation)), inputs[0])}
	}, crossEntropy
}

// Samples are the shapes of a batch of so many samples, and of its labels, which a GPT has
// not.
func (s Spec) Samples(n int) (in, labels shapes.Shape) {
	if s.Model == GPT {
		return shapes.Make(dtypes.Uint8, n, s.Context+1), shapes.Invalid()
	}
	return shapes.Make(dtypes.Float32, n, 3, s.ImageSize, s.ImageSize), shapes.Make(dtypes.Int32, n, 1)
}

// initial makes variables of random normal values with a standard deviation by their
// shape, and biases of 0. The random numbers follow from the store's seed.
func initial(store *model.Store, deviation func(dims []int) float64) model.VariableInitializer {
	return func(g *graph.Graph, shape shapes.Shape) *graph.Node {
		if shape.Rank() < 2 {
			return graph.Zeros(g, shape)
		}
		return graph.MulScalar(store.RandomNormal(g, shape), deviation(shape.Dimensions))
	}
}

// gptDeviation is that of GPT-2.
func gptDeviation([]int) float64 { return 0.02 }

// heDeviation is that of He et al., "Delving Deep into Rectifiers", ICCV 2015, for kernels
// of shape [out, in, height, width] and matrices of shape [in, out].
func heDeviation(dims []int) float64 {
	in := dims[0]
	if len(dims) == 4 {
		in = dims[1] * dims[2] * dims[3]
	}
	return math.Sqrt(2 / float64(in))
}
