// Package models has graphs of whole steps, to measure and to test package step with:
// GPTs, Llamas and residual networks with their backward passes and optimizers, and
// GPT-2 one token at a time. They are what a framework's automatic differentiation
// makes of such models under PyTorch's autocast: weights, sums and normalisations in
// float32, operands of products in 16 bits.
//
//	m, err := models.GPT{Layers: 2, Width: 64, Heads: 2, Batch: 4, Length: 32, Vocabulary: 100, Optimizer: models.Adam}.Model()
//	x, err := step.Compile(m.Graph, exec, step.Options{Donate: m.Donate, Lend: m.Lend})
//	in, err := m.Start(ctx, exec, x.Memory(), 1)
//	out, err := m.Step(ctx, x, in) // in are the next step's parameters now
//	loss, err := m.Loss(out)
//	err = m.Free(out)
//
// There is no general differentiation: each layer says itself what it does backward.
package models
