package pickle

import "iter"

// batch is how many items go to the reader's stack before they are added to
// their list or dict. Python uses the same number.
const batch = 1000

// items writes the contents of a container, n values or pairs of them, with
// the opcode that takes them from the stack.
func (e *encoder) items(collect byte, items iter.Seq[any], n, level int) error {
	if n == 0 {
		return nil
	}
	every := batch
	switch collect {
	case opSetItems:
		every = 2 * batch
	case opTuple: // takes all of them at once
		every = n
	}
	e.op(opMark)
	written := 0
	for item := range items {
		if written == every {
			e.op(collect)
			e.op(opMark)
			written = 0
		}
		if err := e.value(item, level+1); err != nil {
			return err
		}
		written++
	}
	e.op(collect)
	return nil
}

// flat yields keys and values in turn.
func (d *Dict) flat(yield func(any) bool) {
	for _, item := range d.Items {
		if !yield(item.Key) || !yield(item.Value) {
			return
		}
	}
}
