package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Model is the size of the transformer that [Steps] and [Growing] train. The
// zero value has 336 million parameters.
type Model struct {
	// Layers is the number of layers. Default 24.
	Layers int
	// Width is the number of features of a token. Default 1024.
	Width int
	// Sequence is the number of tokens of a sample. Default 256.
	Sequence int
	// Vocabulary is the number of different tokens. Default 32,768.
	Vocabulary int
	// Workspace is the most that the workspace of an attention kernel takes,
	// in bytes. Default 64 MiB.
	Workspace int64
}

// Bytes of an element: bfloat16 for weights, gradients and activations,
// float32 for the moments of the optimizer, int64 for token numbers.
const (
	elementBytes = 2
	momentBytes  = 4
	tokenBytes   = 8
)

// tensor is a named number of elements.
type tensor struct {
	name     string
	elements int64
}

// check fills in defaults, and fails where bytes of a step with the batch
// would not fit into 62 bits.
func (m *Model) check(batch int) error {
	defaults(&m.Layers, 24)
	defaults(&m.Width, 1024)
	defaults(&m.Sequence, 256)
	defaults(&m.Vocabulary, 32<<10)
	defaults(&m.Workspace, 64<<20)
	err := errors.Join(atLeast("Layers", m.Layers, 1), atLeast("Width", m.Width, 1), atLeast("Sequence", m.Sequence, 1),
		atLeast("Vocabulary", m.Vocabulary, 1), atLeast("Workspace", m.Workspace, 1))
	if err != nil {
		return err
	}
	layers, width, vocabulary := float64(m.Layers), float64(m.Width), float64(m.Vocabulary)
	tokens := float64(batch) * float64(m.Sequence)
	bytes := 12*(12*layers*width+vocabulary)*width + 4*tokens*(16*layers*width+2*vocabulary+8) + float64(m.Workspace)
	if bytes >= 1<<62 {
		return fmt.Errorf("trace: %w: a model of %g bytes", ErrArgument, bytes)
	}
	return nil
}

// parameters lists the weights: an embedding, and four matrices a layer.
func (m *Model) parameters() []tensor {
	width := int64(m.Width)
	out := []tensor{{"embedding", int64(m.Vocabulary) * width}}
	for layer := range m.Layers {
		prefix := layerName(layer)
		out = append(out, tensor{prefix + "qkv", 3 * width * width}, tensor{prefix + "projection", width * width},
			tensor{prefix + "up", 4 * width * width}, tensor{prefix + "down", 4 * width * width})
	}
	return out
}

// activations lists what a layer keeps for its backward pass.
func (m *Model) activations(layer int, tokens int64) []tensor {
	prefix, unit := layerName(layer), tokens*int64(m.Width)
	return []tensor{
		{prefix + "norm1", unit}, {prefix + "qkv", 3 * unit}, {prefix + "attention", unit}, {prefix + "projection", unit},
		{prefix + "norm2", unit}, {prefix + "up", 4 * unit}, {prefix + "gelu", 4 * unit}, {prefix + "down", unit},
	}
}

const (
	perLayer  = 8 // activations
	attention = 2 // the one that is made with a workspace
)

func layerName(layer int) string { return "layer" + strconv.Itoa(layer) + "." }

// train emits a training run with one step for each batch size.
func (m *Model) train(e *emitter, rng *rand.Rand, batches func(yield func(int) bool)) {
	var held []Event
	hold := func(purpose, name string, bytes int64) {
		held = append(held, e.alloc(Event{Bytes: bytes, Purpose: purpose, Name: name}))
	}
	for _, p := range m.parameters() {
		hold("weights", p.name, p.elements*elementBytes)
	}
	for _, p := range m.parameters() {
		hold("gradients", p.name, p.elements*elementBytes)
	}
	for _, p := range m.parameters() {
		hold("optimizer", p.name+".moment1", p.elements*momentBytes)
		hold("optimizer", p.name+".moment2", p.elements*momentBytes)
	}
	for batch := range batches {
		if e.stopped {
			return
		}
		m.step(e, rng, int64(batch)*int64(m.Sequence))
	}
	for _, event := range held {
		e.free(event)
	}
}

// step emits the forward and the backward pass of one batch.
func (m *Model) step(e *emitter, rng *rand.Rand, tokens int64) {
	inputs := e.alloc(Event{Bytes: tokens * tokenBytes, Purpose: "batch", Name: "inputs"})
	targets := e.alloc(Event{Bytes: tokens * tokenBytes, Purpose: "batch", Name: "targets"})
	var saved []Event
	for layer := range m.Layers {
		for i, a := range m.activations(layer, tokens) {
			saved = append(saved, e.alloc(activation(a)))
			if i == attention {
				m.workspace(e, rng)
			}
		}
	}
	logits := tensor{"logits", tokens * int64(m.Vocabulary)}
	saved = append(saved, e.alloc(activation(logits)))

	gradient := e.alloc(gradientOf(saved[len(saved)-1]))
	for i := len(saved) - 1; i >= 0; i-- {
		if i%perLayer == attention {
			m.workspace(e, rng)
		}
		e.free(saved[i])
		if i > 0 {
			below := e.alloc(gradientOf(saved[i-1]))
			e.free(gradient)
			gradient = below
		}
	}
	e.free(gradient)
	e.free(targets)
	e.free(inputs)
}

func activation(a tensor) Event {
	return Event{Bytes: a.elements * elementBytes, Purpose: "activations", Name: a.name}
}

func gradientOf(a Event) Event {
	return Event{Bytes: a.Bytes, Purpose: "activations", Name: a.Name + ".gradient"}
}

// workspace emits the scratch memory of a kernel.
func (m *Model) workspace(e *emitter, rng *rand.Rand) {
	e.free(e.alloc(Event{Bytes: 1 + rng.Int64N(m.Workspace), Purpose: "workspace", Name: "attention"}))
}
