package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// held is a tensor with the number of those who need it: a stage that reads it, and each
// exchange that it is part of.
type held struct {
	t    *step.Tensor
	uses int
}

func (h *held) release() error {
	if h.uses--; h.uses > 0 {
		return nil
	}
	return h.t.Free()
}

// box is what a stage has of a micro-batch.
type box map[graph.Value]*held

// passes are those of one step on one rank.
type passes struct {
	*Runner
	ctx      context.Context
	batch    func(micro int) ([]*step.Tensor, error)
	boxes    map[[2]int]box // by stage and micro-batch
	drawers  map[int][]int  // by stage: the micro-batch that has each drawer, or nobody
	batches  map[int]box    // by micro-batch
	weights  map[int]box    // by stage, in another type
	came     map[pass]int   // of a pass of another rank, the exchange that its values came with
	queued   bool           // passes are queued, and not waited for
	posted   int            // exchanges that were queued
	over     int            // exchanges that later passes wait for, or that are done
	using    [][]*held      // by exchange
	started  int            // passes that were queued
	finished int            // passes that are done
	then     []func() error // by pass, what follows when it is done; nil: nothing
	loss     float64
}

func newPasses(ctx context.Context, r *Runner, batch func(micro int) ([]*step.Tensor, error)) *passes {
	queued := r.recycler != nil && r.l.o.Compile.Block == nil
	return &passes{Runner: r, queued: queued, ctx: ctx, batch: batch, boxes: map[[2]int]box{}, drawers: map[int][]int{}, batches: map[int]box{}, weights: map[int]box{}, came: map[pass]int{}, using: make([][]*held, len(r.exchanges)), then: make([]func() error, len(r.ends))}
}

// ahead is how many passes are queued before the first of them is done: the device has the
// next one when it is done with one.
const ahead = 2

// run makes all passes, with what is sent and received beside them.
//
// Passes are queued one behind the other, and exchanges on a stream of their own, behind the
// pass that was queued last. So what a pass or an exchange lets go of is used again by what
// comes behind it alone, if all memory is the runner's own. What the processor reads and
// writes, the loss and batches, waits until the pass is done.
func (x *passes) run() error {
	if err := x.stream.Record(x.together); err != nil {
		return err
	}
	for _, c := range x.chunks {
		if err := x.cast(c); err != nil {
			return fmt.Errorf("stage %d of %d: weights: %w", c.number, len(x.l.parts), err)
		}
	}
	for i, op := range x.l.schedule[x.rank] {
		c := x.chunks[op.Chunk]
		if err := x.reach(x.started - ahead); err != nil {
			return err
		}
		if err := x.make(op, c, x.levels[i]); err != nil {
			return x.blamed(op, c, err)
		}
		if !x.queued {
			if err := x.reach(x.started); err != nil {
				return err
			}
		}
	}
	if err := x.post(math.MaxInt); err != nil {
		return x.behind(err)
	}
	if x.recycler != nil {
		x.recycler.use(drawer{})
	}
	if err := x.reach(x.started); err != nil {
		return err
	}
	if x.posted > 0 {
		if err := device.Wait(x.ctx, x.done[x.posted-1]); err != nil {
			return x.behind(err)
		}
	}
	return errors.Join(x.await(x.posted), x.wait())
}

// reach waits until the first so many passes are done.
func (x *passes) reach(n int) error {
	for ; x.finished < n; x.finished++ {
		var err error
		if x.queued {
			err = device.Wait(x.ctx, x.ends[x.finished])
		}
		if then := x.then[x.finished]; then != nil && err == nil {
			x.then[x.finished] = nil
			err = then()
		}
		if err != nil {
			op := x.l.schedule[x.rank][x.finished]
			return x.named(op, x.chunks[op.Chunk], err)
		}
	}
	return nil
}

// named says in which pass something went wrong.
func (x *passes) named(op Op, c *chunk, err error) error {
	return fmt.Errorf("stage %d of %d: %v pass of micro-batch %d: %w", c.number, len(x.l.parts), op.Kind, op.Micro, err)
}

// blamed is named for what went wrong while a pass was queued, which may be one before it.
func (x *passes) blamed(op Op, c *chunk, err error) error {
	for i := x.finished; x.queued && i < x.started; i++ {
		if _, failed := x.ends[i].Done(); failed != nil {
			op = x.l.schedule[x.rank][i]
			return x.named(op, x.chunks[op.Chunk], err)
		}
	}
	return x.named(op, c, err)
}

// behind says that something went wrong when all passes were queued.
func (x *passes) behind(err error) error {
	return fmt.Errorf("stage %d of %d: what is sent behind its passes: %w", x.chunks[0].number, len(x.l.parts), err)
}

// wait waits for all passes that were queued, whatever became of them.
func (x *passes) wait() error {
	var all []error
	for _, c := range x.chunks {
		for _, p := range []*program{c.cast, c.forward, c.backward} {
			if p == nil {
				continue
			}
			if err := p.x.Wait(); err != nil {
				all = append(all, fmt.Errorf("stage %d of %d: %w", c.number, len(x.l.parts), err))
			}
		}
	}
	return errors.Join(all...)
}

// cast makes weights in another type. It moves together, which the first pass waits for,
// behind them.
func (x *passes) cast(c *chunk) error {
	if c.cast == nil {
		return nil
	}
	if x.recycler != nil {
		x.recycler.use(drawer{-1, c.number})
	}
	inputs, err := x.inputs(c, c.cast, box{}, 0, true)
	if err != nil {
		return err
	}
	out, err := x.launch(c.cast, inputs, x.together, x.together)
	if err != nil {
		return err
	}
	b := box{}
	for k, v := range c.cast.out {
		b[v] = &held{out[k], 1}
	}
	x.weights[c.number] = b
	return nil
}

// pause is a pass in which nothing is done.
func (x *passes) pause() error {
	if !x.queued {
		return nil
	}
	if x.started > 0 {
		if err := x.stream.Wait(x.ends[x.started-1]); err != nil {
			return err
		}
	}
	return x.stream.Record(x.ends[x.started])
}

// start queues a part of a pass, behind the pass before and the exchanges that it waits for.
func (x *passes) start(p *program, inputs []*step.Tensor) ([]*step.Tensor, error) {
	after := []device.Event{x.together} // behind which the step began
	if x.started > 0 {
		after = append(after, x.ends[x.started-1])
	}
	if x.over > 0 {
		after = append(after, x.done[x.over-1])
	}
	return x.launch(p, inputs, x.ends[x.started], after...)
}

// launch queues a program between events, or runs it.
func (x *passes) launch(p *program, inputs []*step.Tensor, done device.Event, after ...device.Event) ([]*step.Tensor, error) {
	if x.queued {
		return p.x.Start(context.Background(), inputs, p.donate, done, after...)
	}
	return p.x.Run(context.Background(), inputs, p.donate)
}

// make makes a pass that ends at a level.
func (x *passes) make(op Op, c *chunk, level int) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	// What others send while the pass runs comes beside it.
	if err := x.post(level - 1); err != nil {
		return err
	}
	from := pass{op.Kind, op.Micro, c.number - 1}
	if op.Kind == Backward {
		from.stage = c.number + 1
	}
	if e, ok := x.came[from]; ok {
		if err := x.await(e + 1); err != nil {
			return err
		}
	}
	var err error
	if op.Kind == Forward {
		err = x.forward(c, op.Micro)
	} else {
		err = x.backward(c, op.Micro)
	}
	if err != nil {
		return err
	}
	x.started++
	if err := x.post(level); err != nil {
		return err
	}
	return x.leave(op, c)
}

// post queues exchanges up to a level.
func (x *passes) post(level int) error {
	if x.queued && x.posted < len(x.exchanges) && x.exchanges[x.posted].level <= level && x.started > 0 {
		if err := x.stream.Wait(x.ends[x.started-1]); err != nil {
			return err
		}
	}
	for ; x.posted < len(x.exchanges) && x.exchanges[x.posted].level <= level; x.posted++ {
		var list []parallel.Transfer
		for _, t := range x.exchanges[x.posted].transfers {
			bytes := t.value.Shape().Bytes()
			if t.made.stage%x.l.ranks == x.rank {
				h := x.box(t.made.stage, t.made.micro)[t.value]
				h.uses++
				x.using[x.posted] = append(x.using[x.posted], h)
				list = append(list, parallel.Send(h.t.Ptr(), bytes, t.to%x.l.ranks))
				continue
			}
			if x.recycler != nil {
				d := drawer{t.to + 1, 0}
				if t.made.kind == Forward { // it is kept as long as all of the micro-batch
					d.number = -1 - t.made.micro%x.l.inFlight[t.to]
				}
				x.recycler.use(d)
			}
			tensor, err := x.memory.New(t.value.Shape())
			if err != nil {
				return err
			}
			h := &held{tensor, 2}
			x.using[x.posted] = append(x.using[x.posted], h)
			x.box(t.to, t.made.micro)[t.value] = h
			x.came[t.made] = x.posted
			list = append(list, parallel.Recv(tensor.Ptr(), bytes, t.made.stage%x.l.ranks))
		}
		if err := errors.Join(x.beside.Exchange(x.stream, list...), x.stream.Record(x.done[x.posted])); err != nil {
			return err
		}
	}
	return nil
}

// await has later passes wait until the first so many exchanges are done.
func (x *passes) await(n int) error {
	if n <= x.over {
		return nil
	}
	if !x.queued {
		if err := device.Wait(x.ctx, x.done[n-1]); err != nil {
			return err
		}
	}
	var all []error
	for ; x.over < n; x.over++ {
		for _, h := range x.using[x.over] {
			all = append(all, h.release())
		}
		x.using[x.over] = nil
	}
	return errors.Join(all...)
}

func (x *passes) box(stage, micro int) box {
	at := [2]int{stage, micro}
	if x.boxes[at] == nil {
		x.boxes[at] = box{}
	}
	return x.boxes[at]
}

// nobody has a drawer that the next micro-batch can have.
const nobody = -1

// use has memory come from the drawer of a micro-batch in a stage, which it has from its way
// forward until it is dropped.
func (x *passes) use(stage, micro int) {
	if x.recycler == nil {
		return
	}
	list := x.drawers[stage]
	i := slices.Index(list, micro)
	if i < 0 {
		if i = slices.Index(list, nobody); i < 0 {
			i, list = len(list), append(list, nobody)
		}
		list[i] = micro
		x.drawers[stage] = list
	}
	x.recycler.use(drawer{stage + 1, i + 1})
}

// drop lets go of an empty box.
func (x *passes) drop(stage, micro int) {
	delete(x.boxes, [2]int{stage, micro})
	if i := slices.Index(x.drawers[stage], micro); i >= 0 {
		x.drawers[stage][i] = nobody
	}
}

// forward makes a forward pass of a micro-batch.
func (x *passes) forward(c *chunk, micro int) error {
	if err := x.take(micro); err != nil {
		return err
	}
	if c.forward == nil {
		return x.pause()
	}
	x.use(c.number, micro)
	b := x.box(c.number, micro)
	inputs, err := x.inputs(c, c.forward, b, micro, true)
	if err != nil {
		return err
	}
	out, err := x.start(c.forward, inputs)
	if err != nil {
		return err
	}
	for k, v := range c.forward.out {
		b[v] = &held{out[k], 1}
	}
	out = out[len(c.forward.out):]
	for k, i := range c.changes {
		if before := x.state[slot{i, c.number}]; !before.Freed() {
			_ = before.Free() // nothing read it
		}
		x.state[slot{i, c.number}] = out[k]
	}
	if c.number < len(x.l.parts)-1 {
		return nil
	}
	loss := out[len(c.changes)]
	x.then[x.started] = func() error {
		data := make([]byte, 4)
		err := errors.Join(loss.Read(data), loss.Free())
		x.loss += float64(math.Float32frombits(binary.LittleEndian.Uint32(data))) / float64(x.l.o.Micro)
		return err
	}
	return nil
}

// backward makes a backward pass of a micro-batch, whose gradients are added up.
func (x *passes) backward(c *chunk, micro int) error {
	if c.backward == nil {
		return x.pause()
	}
	x.use(c.number, micro)
	b := x.box(c.number, micro)
	inputs, err := x.inputs(c, c.backward, b, micro, false)
	if err != nil {
		return err
	}
	for _, i := range c.gradients {
		inputs = append(inputs, x.sums[i])
	}
	if len(c.gradients) > 0 {
		inputs = append(inputs, x.first[min(micro, 1)])
	}
	out, err := x.start(c.backward, inputs)
	if err != nil {
		return err
	}
	for k, v := range c.backward.out {
		b[v] = &held{out[k], 1}
	}
	for k, i := range c.gradients {
		x.sums[i] = out[len(c.backward.out)+k]
	}
	return nil
}

// inputs are what a pass reads. The way back reads a state that changes with each
// micro-batch as it was on the way forward.
func (x *passes) inputs(c *chunk, p *program, b box, micro int, forward bool) (list []*step.Tensor, err error) {
	for _, v := range p.in {
		i, state := x.l.state[v]
		var t *step.Tensor
		switch h := x.batches[micro][v]; {
		case h != nil:
			t = h.t
		case x.weights[c.number][v] != nil:
			t = x.weights[c.number][v].t
		case state && !x.l.changes(i):
			t = x.state[slot{i, -1}]
		case state && forward:
			t = x.state[slot{i, c.number}]
		case b[v] != nil:
			t = b[v].t
		case v.Shape().Bytes() == 0: // it is not sent
			if t, err = x.memory.New(v.Shape()); err != nil {
				return nil, err
			}
			b[v] = &held{t, 1}
		}
		list = append(list, t)
	}
	return list, nil
}
