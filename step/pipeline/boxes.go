package pipeline

import (
	"errors"
)

// take asks for a micro-batch when the first stage of the rank comes to it, and keeps what
// some stage reads.
func (x *passes) take(micro int) error {
	if x.batches[micro] != nil {
		return nil
	}
	b := box{}
	x.batches[micro] = b
	if x.places != nil {
		x.places.use(drawer{0, 1 + micro%x.most()})
	}
	tensors, err := x.batch(micro)
	if err == nil && len(tensors) != len(x.l.step.Batch) {
		err = bad("%d tensors for %d parameters of a batch", len(tensors), len(x.l.step.Batch))
	}
	for k, t := range tensors {
		if t == nil {
			continue
		}
		if err == nil && x.reads[x.l.step.Batch[k]] {
			b[x.l.step.Batch[k]] = &held{t, 1}
		} else {
			err = errors.Join(err, t.Free())
		}
	}
	return err
}

// most is for how many batches there is room on the rank: those under way, and those of
// passes that may not be done yet, up to a multiple of those under way. So a pass finds few
// pairs of a batch and of what else it has of a micro-batch.
func (x *passes) most() int {
	n := x.l.inFlight[x.rank]
	return n + (ahead+n-1)/n*n
}

// leave lets go of what is not wanted when a pass was made, and hands what the next stage
// wants on, if that is of the same rank.
func (x *passes) leave(op Op, c *chunk) error {
	b, to, values := x.box(c.number, op.Micro), c.number+1, c.up
	if op.Kind == Backward {
		to, values = c.number-1, c.down
	}
	if len(values) > 0 && to%x.l.ranks == x.rank {
		for _, v := range values {
			if h := b[v]; h != nil {
				h.uses++
				x.box(to, op.Micro)[v] = h
			}
		}
	}
	var all []error
	for v, h := range b {
		if op.Kind == Backward || !c.kept[v] {
			all = append(all, h.release())
			delete(b, v)
		}
	}
	if op.Kind == Backward {
		x.drop(c.number, op.Micro)
		if c.number == x.rank { // of the rank's first stage: it is the last to come to it
			b := x.batches[op.Micro]
			x.batches[op.Micro] = box{}
			if x.finished == x.started {
				all = append(all, b.free())
			} else {
				x.then[x.started-1] = b.free // the next batch is written by the processor
			}
		}
	}
	return errors.Join(all...)
}

func (b box) free() error {
	var all []error
	for _, h := range b {
		all = append(all, h.release())
	}
	return errors.Join(all...)
}

// free lets go of everything. Nothing is under way any more.
func (x *passes) free() error {
	var all []error
	for _, list := range x.using {
		for _, h := range list {
			all = append(all, h.release())
		}
	}
	for _, b := range x.boxes {
		all = append(all, b.free())
	}
	for _, b := range x.batches {
		all = append(all, b.free())
	}
	for _, b := range x.weights {
		all = append(all, b.free())
	}
	for _, then := range x.then { // of a step that failed
		if then != nil {
			_ = then()
		}
	}
	x.using, x.boxes, x.batches, x.weights, x.then = nil, nil, nil, nil, nil
	return errors.Join(all...)
}
