package models

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
)

// tokens is how many there are: each byte is one.
const tokens = 256

// gpt is a transformer in the manner of GPT-2: learned positions, normalisation before
// attention and before the feed-forward part, which is four times as wide. rows are bytes
// of shape [batch, context+1]; each but the first is what is to be predicted.
func (s Spec) gpt(scope *model.Scope, rows *graph.Node) (logits *graph.Node) {
	g := rows.Graph()
	rows = graph.ConvertDType(rows, dtypes.Int32)
	in := graph.Slice(rows, graph.AxisRange(), graph.AxisRange(0, s.Context))
	next := graph.Slice(rows, graph.AxisRange(), graph.AxisRange(1, s.Context+1))

	x := layers.Embedding(scope.In("tokens"), in, dtypes.Float32, tokens, s.Width)
	x = graph.Reshape(x, -1, s.Context, s.Width) // it leaves out an axis of one token
	positions := scope.In("positions").VariableWithShape("embeddings", shapes.Make(dtypes.Float32, s.Context, s.Width))
	x = graph.Add(x, graph.ExpandAxes(positions.NodeValue(g), 0))
	for i := range s.Layers {
		layer := scope.In("layer_%d", i)
		y := norm.LayerNorm(layer.In("attention_norm"), x, -1).Done()
		x = graph.Add(x, attention.SelfAttention(layer.In("attention"), y, s.Heads, s.Width/s.Heads).WithCausalMask(true).Done())
		y = norm.LayerNorm(layer.In("forward_norm"), x, -1).Done()
		y = activation.Gelu(layers.Dense(layer.In("forward_in"), y, true, 4*s.Width))
		x = graph.Add(x, layers.Dense(layer.In("forward_out"), y, true, s.Width))
	}
	x = norm.LayerNorm(scope.In("norm"), x, -1).Done()
	logits = layers.Dense(scope.In("out"), x, false, tokens)
	train.AddMainLoss(crossEntropy([]*graph.Node{graph.ExpandAxes(next, -1)}, []*graph.Node{logits}))
	return logits
}

// crossEntropy is the mean of that of all predictions, in nats.
func crossEntropy(labels, logits []*graph.Node) *graph.Node {
	return graph.ReduceAllMean(loss.SparseCategoricalCrossEntropyLogits(labels, logits))
}
