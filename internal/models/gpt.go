package models

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// GPT describes a training step of a GPT: embeddings of tokens and of their places, Layers
// blocks of causal attention and a perceptron of four times the Width, each behind a
// normalisation, and the mean cross-entropy of the next tokens. Sizes have to be
// above 0.
type GPT struct {
	Layers, Width, Heads int
	Batch, Length        int // sequences, and tokens of each
	Vocabulary           int

	// Type is that of products: F32 (default), F64 for everything, or BF16 as under
	// PyTorch's autocast, with weights and sums in F32.
	Type      dtype.DType
	Optimizer Optimizer

	// PlainAttention is by products and a softmax, with scores in memory. Default: one
	// operation of the executor's.
	PlainAttention bool

	LearningRate float64     // default: 1e-3
	Ranks        bool        // gradients are the means of all ranks'
	Average      dtype.DType // in which these are averaged; 0: their own
}

func (c GPT) check() error {
	for _, n := range []int{c.Layers, c.Width, c.Heads, c.Batch, c.Length, c.Vocabulary} {
		if n < 1 {
			return fmt.Errorf("models: %w: sizes have to be above 0: %+v", errs.ErrArgument, c)
		}
	}
	if c.Width%c.Heads != 0 {
		return fmt.Errorf("models: %w: a width of %d is not %d heads of the same width", errs.ErrArgument, c.Width, c.Heads)
	}
	return nil
}

// Model makes the graph. Parameters are the tokens and the targets, i32[Batch x Length],
// and the weights, with what the optimizer has of them. Results are the loss, and the
// gradients, or what takes the place of parameters.
func (c GPT) Model() (*Model, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return build(fmt.Sprintf("GPT %d x %d", c.Layers, c.Width), c.Type, func(b *builder) {
		tokens, targets := b.sequences(c.Batch*c.Length, c.Vocabulary)
		h := heads{c.Batch, c.Length, c.Heads, c.Width / c.Heads}
		x := b.embed(b.weight("tokens' table", random(0.02), c.Vocabulary, c.Width), tokens)
		x = b.places(x, b.weight("places' table", random(0.02), c.Length, c.Width), c.Batch)
		for i := range c.Layers {
			w := func(name string, in, out int) graph.Value {
				return b.weight(fmt.Sprintf("%d: %s", i, name), random(0.02), in, out)
			}
			n := b.layerNorm(x, b.row(i, "scale 1", ones, c.Width), b.row(i, "offset 1", zeros, c.Width))
			q, k, v := b.linear(n, w("query", c.Width, c.Width)), b.linear(n, w("key", c.Width, c.Width)), b.linear(n, w("value", c.Width, c.Width))
			x = b.plus(x, b.linear(b.attention(q, k, v, h, c.PlainAttention), w("out", c.Width, c.Width)))
			n = b.layerNorm(x, b.row(i, "scale 2", ones, c.Width), b.row(i, "offset 2", zeros, c.Width))
			up := b.gelu(b.linear(n, w("up", c.Width, 4*c.Width)), b.row(i, "offset up", zeros, 4*c.Width))
			down := b.bias(b.linear(up, w("down", 4*c.Width, c.Width)), b.row(i, "offset down", zeros, c.Width))
			x = b.plus(x, down)
		}
		x = b.layerNorm(x, b.weight("scale", ones, c.Width), b.weight("offset", zeros, c.Width))
		logits := b.linear(x, b.weight("head", random(0.02), c.Width, c.Vocabulary))
		b.finish(b.crossEntropy(logits, targets), c.Optimizer, c.LearningRate, means(c.Ranks, c.Average))
	})
}

// sequences are tokens and what follows each of them.
func (b *builder) sequences(n, vocabulary int) (tokens, targets graph.Value) {
	s := graph.MakeShape(dtype.I32, n)
	return b.batch("tokens", s, integers(vocabulary)), b.batch("targets", s, integers(vocabulary))
}

// row is a weight of a layer with one axis.
func (b *builder) row(layer int, name string, how initial, n int) graph.Value {
	return b.weight(fmt.Sprintf("%d: %s", layer, name), how, n)
}

// Llama describes a training step of a Llama: as [GPT], with rotary embeddings of places,
// normalisations by the root of the mean square, and a gated perceptron of width Hidden
// (default: 8/3 of Width, in units of 64).
type Llama struct {
	GPT
	Hidden int
}

// Model makes the graph, with parameters and results as those of [GPT.Model].
func (c Llama) Model() (*Model, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Width/c.Heads%2 != 0 || c.Hidden < 0 {
		return nil, fmt.Errorf("models: %w: heads have an even width, and a hidden width is not negative: %+v", errs.ErrArgument, c)
	}
	hidden := c.Hidden
	if hidden == 0 {
		hidden = (8*c.Width/3 + 63) / 64 * 64
	}
	return build(fmt.Sprintf("Llama %d x %d", c.Layers, c.Width), c.Type, func(b *builder) {
		tokens, targets := b.sequences(c.Batch*c.Length, c.Vocabulary)
		h := heads{c.Batch, c.Length, c.Heads, c.Width / c.Heads}
		x := b.embed(b.weight("table", random(0.02), c.Vocabulary, c.Width), tokens)
		for i := range c.Layers {
			w := func(name string, in, out int) graph.Value {
				return b.weight(fmt.Sprintf("%d: %s", i, name), random(0.02), in, out)
			}
			n := b.rmsNorm(x, b.row(i, "scale 1", ones, c.Width))
			q, k, v := b.linear(n, w("query", c.Width, c.Width)), b.linear(n, w("key", c.Width, c.Width)), b.linear(n, w("value", c.Width, c.Width))
			a := b.attention(b.rotary(q, h), b.rotary(k, h), v, h, c.PlainAttention)
			x = b.plus(x, b.linear(a, w("out", c.Width, c.Width)))
			n = b.rmsNorm(x, b.row(i, "scale 2", ones, c.Width))
			gate := b.swiglu(b.linear(n, w("gate", c.Width, hidden)), b.linear(n, w("up", c.Width, hidden)))
			x = b.plus(x, b.linear(gate, w("down", hidden, c.Width)))
		}
		x = b.rmsNorm(x, b.weight("scale", ones, c.Width))
		logits := b.linear(x, b.weight("head", random(0.02), c.Width, c.Vocabulary))
		b.finish(b.crossEntropy(logits, targets), c.Optimizer, c.LearningRate, means(c.Ranks, c.Average))
	})
}
