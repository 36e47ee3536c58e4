package cudaexec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// attentions say what computes attentions.
type attentions struct {
	forward, backward bool // cuDNN, if it is there and takes them
	stored            bool // own kernels keep gradients of scores in scratch memory ([attending.stored])
}

// AttentionVariable names the environment variable that says so, when an executor is
// opened: "own", or some of "cudnn-forward", "cudnn-backward", "cudnn" for both, and
// "stored", with "+" between them. Results differ by rounding, and each way repeats to the
// bit.
const AttentionVariable = "PINION_ATTENTION"

// usualAttentions are without the variable: the library's are the fastest, and they repeat
// to the bit, as tests of step/internal/cudnn ask.
var usualAttentions = attentions{forward: true, backward: true}

func attentionsBy(choice string) (a attentions, err error) {
	if choice == "" {
		return usualAttentions, nil
	}
	for word := range strings.SplitSeq(choice, "+") {
		switch word {
		case "own":
		case "cudnn":
			a.forward, a.backward = true, true
		case "cudnn-forward":
			a.forward = true
		case "cudnn-backward":
			a.backward = true
		case "stored":
			a.stored = true
		default:
			return attentions{}, fmt.Errorf("step: %w: %s has %q, which is none of own, cudnn, cudnn-forward, cudnn-backward and stored", step.ErrArgument, AttentionVariable, word)
		}
	}
	return a, nil
}

// byLibrary implements [step.Kernel] by the library alone.
type byLibrary struct {
	library  library
	plan     *cudnn.Plan
	operands []array // numbers below 0: nowhere
}

// libraryAttention is an attention by the library; nil for another task, and where kernels
// of our own do it.
func (e *executor) libraryAttention(t *step.Task) (step.Kernel, error) {
	n := t.Nodes[len(t.Nodes)-1]
	backward := n.Op == graph.AttentionBackward
	if n.Op != graph.Attention && !backward || backward && !e.attends.backward || !backward && !e.attends.forward || n.Shapes[0].Size() == 0 {
		return nil, nil
	}
	u := &unit{views: views{access.Views{Given: map[graph.Value]bool{}}}, task: t}
	for _, v := range t.Inputs {
		u.Given[v] = true
	}
	k := &byLibrary{}
	for _, v := range n.Inputs {
		k.operands = append(k.operands, array{number: slices.Index(t.Inputs, u.Base(v))})
	}
	for i := range n.Shapes {
		k.operands = append(k.operands, array{number: slices.Index(t.Outputs, n.Value(i)), output: true})
	}
	// Sums may be read by nobody.
	sums := backward || k.operands[4].number >= 0
	for i, o := range k.operands {
		if o.number < 0 && (backward || i != 4) {
			return nil, nil
		}
	}
	options, s := graph.AttentionOf(n)
	l, plan, err := e.planned(cudnn.Attention{
		Backward: backward, Type: n.Inputs[0].Shape().Type,
		Batch: s.Batch, Heads: s.Heads, KeyHeads: s.KeyHeads, Queries: s.Queries, Keys: s.Keys, Each: s.Each,
		HeadsBehind: options.HeadsBehind, Causal: options.Causal, Sums: sums && !backward, Scale: float32(options.Scale),
	})
	if plan == nil {
		return nil, err
	}
	k.library, k.plan = l, plan
	return k, nil
}

// Scratch implements [step.Kernel].
func (k *byLibrary) Scratch() int64 {
	if n := k.plan.WorkspaceBytes(); n > 0 {
		return n + workspaceAlign
	}
	return 0
}

// Launch implements [step.Kernel].
func (k *byLibrary) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	at := make([]device.Ptr, len(k.operands))
	for i, o := range k.operands {
		switch {
		case o.number < 0:
		case o.output:
			at[i] = outputs[o.number]
		default:
			at[i] = inputs[o.number]
		}
	}
	return k.library.Run(s, k.plan, device.Ptr(aligned(int64(scratch))), at...)
}
