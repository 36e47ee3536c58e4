package cudaexec

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
	"github.com/pinion-gpu/pinion/step/internal/convolving"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// convolutionOf is a ConvGeneral as the library has it.
func convolutionOf(u *access.Views, n *graph.Node) (cudnn.Convolution, [3]convolving.Side, bool) {
	k, reversed := u.Filter(n)
	return convolving.Of(n, k, reversed)
}

// convolved implements [step.Kernel] by the library, and by kernels that bring operands
// and the result into the order that they have in memory.
type convolved struct {
	library       library
	plan          *cudnn.Plan
	before, after *kernels
	at            [3]place // of the sides
	scratch       int64
}

// place is where a side is: one of the task's arrays, or in scratch memory.
type place struct {
	array   array
	scratch bool
	offset  int64
}

// convolution is a ConvGeneral by the library; nil where there is none, or none that
// takes it.
func (e *executor) convolution(t *step.Task) (step.Kernel, error) {
	if len(t.Outputs) != 1 || t.Outputs[0].Node().Op != graph.ConvGeneral {
		return nil, nil
	}
	u := &unit{views: views{Views: access.Views{Given: map[graph.Value]bool{}}}, task: t}
	for _, x := range t.Inputs {
		u.Given[x] = true
	}
	c, sides, ok := convolutionOf(&u.Views, t.Outputs[0].Node())
	if !ok {
		return nil, nil
	}
	l, plan, err := e.planned(c)
	if plan == nil {
		return nil, err
	}
	k := &convolved{library: l, plan: plan}
	before, after := *u, *u
	k.scratch = aligned(k.plan.WorkspaceBytes())
	for i := range sides {
		s := &sides[i]
		output := s.Value == t.Outputs[0]
		if !output {
			s.Value = u.Base(s.Value)
		}
		where := array{number: slices.Index(t.Inputs, s.Value)}
		if output {
			where = array{output: true}
		}
		if where.number < 0 {
			return nil, nil
		}
		k.at[i] = place{array: where}
		if s.Lies(c.ChannelsLast) {
			continue
		}
		k.at[i] = place{scratch: true, offset: k.scratch}
		l := u.turned(s, c.ChannelsLast, k.scratch, output)
		if output {
			after.launches = append(after.launches, l)
		} else {
			before.launches = append(before.launches, l)
		}
		k.scratch += aligned(s.Value.Shape().Bytes())
	}
	if k.before, err = e.kernels(&before); err != nil {
		return nil, err
	}
	if k.after, err = e.kernels(&after); err != nil {
		return nil, err
	}
	return k, nil
}

// turned copies a side's value to scratch memory at offset, in the order that the library
// wants, or back.
func (u *unit) turned(s *convolving.Side, channelsLast bool, offset int64, back bool) launch {
	axes := s.Axes(channelsLast)
	var dims []int
	for _, a := range axes {
		dims = append(dims, a.Count)
	}
	k := u.kernel(s.Value.Shape().Size())
	k.scope = newScope(nil)
	k.row = k.scope
	k.push()
	at := k.along(index{at: "e"}, dims)
	sum := k.number(s.First)
	for i, a := range axes {
		if a.Count > 1 {
			sum += fmt.Sprintf(" + %s * (%s)", at[i], k.number(a.Stride))
		}
	}
	t := cudac.Stored(s.Value.Shape().Type)
	there := fmt.Sprintf("((%s *)%s)[%s]", t, k.pointer(s.Value), k.defineIndex("%s", sum))
	here := fmt.Sprintf("((%s *)((u8 *)%s + %dll))[e]", t, k.scratchPointer(), offset)
	if back {
		here, there = there, here
	}
	k.printf("%s = %s;", here, there)
	l := k.over("turned", s.Value.Shape().Size())
	l.scratch = 1 // it is given some, of the convolution's
	return l
}

// Scratch implements [step.Kernel].
func (k *convolved) Scratch() int64 {
	if k.scratch == 0 {
		return 0
	}
	return k.scratch + workspaceAlign
}

// Launch implements [step.Kernel].
func (k *convolved) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	scratch = device.Ptr(aligned(int64(scratch)))
	if err := k.before.Launch(s, inputs, outputs, scratch); err != nil {
		return err
	}
	var at [3]device.Ptr
	for i, p := range k.at {
		switch {
		case p.scratch:
			at[i] = scratch.Add(p.offset)
		case p.array.output:
			at[i] = outputs[p.array.number]
		default:
			at[i] = inputs[p.array.number]
		}
	}
	if err := k.library.Run(s, k.plan, scratch, at[convolving.Image], at[convolving.Filter], at[convolving.Result]); err != nil {
		return err
	}
	return k.after.Launch(s, inputs, outputs, scratch)
}
