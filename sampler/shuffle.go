package sampler

import "github.com/pinion-gpu/pinion/internal/draw"

// ShuffleBuffer shuffles a stream of unknown length within a window. It holds
// up to a fixed number of items; each further item takes the place of a random
// one, which comes out. An item comes out at most size-1 places early, and any
// number of places late.
//
// The order depends on seed, epoch and the stream alone. To resume in the
// middle, push the stream again from its start and ignore what came out before.
// So push what is cheap to make, such as keys or offsets, and read what they
// name when they come out.
//
// A ShuffleBuffer is for one goroutine at a time.
//
// Source: the shuffle of tf.data and of WebDataset.
type ShuffleBuffer[T any] struct {
	size  int
	key   uint64
	drawn uint64
	items []T
}

// NewShuffleBuffer returns an empty buffer of size items; 1 shuffles nothing.
// Memory is taken as items come. A size below 1 is an [ErrArgument].
func NewShuffleBuffer[T any](size int, seed uint64, epoch int) (*ShuffleBuffer[T], error) {
	if err := atLeastOne("size", size); err != nil {
		return nil, err
	}
	return &ShuffleBuffer[T]{size: size, key: draw.Hash(draw.Hash(saltShuffle, seed), uint64(epoch))}, nil
}

// Len is the number of items in the buffer.
func (b *ShuffleBuffer[T]) Len() int { return len(b.items) }

// Push puts an item in. If the buffer was full, a random one of those in it
// before comes out, and ok is true.
func (b *ShuffleBuffer[T]) Push(item T) (out T, ok bool) {
	if len(b.items) < b.size {
		b.items = append(b.items, item)
		return out, false
	}
	slot := b.draw()
	out, b.items[slot] = b.items[slot], item
	return out, true
}

// Pop takes a random item out: at the end of the stream, until ok is false.
func (b *ShuffleBuffer[T]) Pop() (out T, ok bool) {
	if len(b.items) == 0 {
		return out, false
	}
	slot, last := b.draw(), len(b.items)-1
	out, b.items[slot] = b.items[slot], b.items[last]
	clear(b.items[last:]) // the buffer must not keep what it gave away alive
	b.items = b.items[:last]
	return out, true
}

// draw returns a random slot.
func (b *ShuffleBuffer[T]) draw() int {
	b.drawn++
	return int(draw.Below(draw.Hash(b.key, b.drawn), uint64(len(b.items))))
}
