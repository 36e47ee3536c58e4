package mpi

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/parallel/internal/hosted"
)

// MPI_Comm_split waits for all ranks, and no call of this process goes on meanwhile. So
// ranks first agree that all of them have come and will make it next, by all-gathers,
// whose wait can be left. A rank that leaves it still goes on with that on its own, so
// that the others are not kept in the call.
//
// Two groups that share ranks may split at the same time, and one rank must not wait in
// the call for the first while another waits in that for the second. So each split has a
// number that its ranks agree on, a rank gives its word to one at a time, the lowest of
// those whose ranks have come, and all do the call when all have given theirs.

// Split implements [hosted.Engine].
func (e *engine) Split(color, key int) (hosted.Engine, error) {
	type result struct {
		part *engine
		err  error
	}
	done := make(chan result)
	go func() {
		part, err := e.split(color, key)
		select {
		case done <- result{part, err}:
		case <-e.aborted:
			if part != nil {
				part.free()
			}
		}
	}()
	select {
	case <-e.aborted:
		return nil, e.reason
	case r := <-done:
		if r.part == nil {
			return nil, r.err
		}
		return r.part, opened()
	}
}

// offer is what a rank tells the others of its part in a split.
type offer struct {
	color, key int64
	stamp      int64 // no other is the same
	word       int64 // 1: it makes the call next if all do
}

func (e *engine) split(color, key int) (*engine, error) {
	t := &e.loop.turns
	all := make([]offer, e.size)
	own := offer{color: int64(color), key: int64(key), stamp: t.stamp(e.loop.rank, e.loop.size)}
	var number int64
	defer func() { t.leave(number) }()
	for agreed := false; !agreed; {
		if number != 0 {
			own.word = t.ask(number)
		}
		all[e.rank] = own
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(&all[0])), len(all)*int(unsafe.Sizeof(own)))
		if err := e.loop.wait(e.gather(bytes)); err != nil {
			return nil, err
		}
		agreed = true
		for _, o := range all {
			number = max(number, o.stamp)
			agreed = agreed && o.word == 1
		}
		if !agreed {
			t.release(number)
		}
	}
	var ranks []int // of the part, in its order
	for k, o := range all {
		if o.color == own.color {
			ranks = append(ranks, k)
		}
	}
	first := ranks[0]
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(all[a].key, all[b].key) })
	rank := slices.Index(ranks, e.rank)
	if color < 0 {
		first = undefined
	}
	part := newEngine(e.loop, 0, rank, len(ranks))
	lib := e.loop.lib
	if err := e.loop.call(func() error {
		err := lib.check("MPI_Comm_split", lib.commSplit.Call(e.comm, integer(first), integer(rank), uintptr(unsafe.Pointer(&part.comm))))
		if err != nil || color < 0 {
			return err
		}
		return lib.check("MPI_Comm_set_errhandler", lib.setHandler.Call(part.comm, lib.handle(errorsReturn)))
	}); err != nil || color < 0 {
		return nil, err
	}
	return part, nil
}

// turns are the splits of this process whose ranks have all come.
type turns struct {
	mu      sync.Mutex
	stamps  int64
	numbers []int64
	holder  int64 // has the word of this rank, or 0
}

func (t *turns) stamp(rank, size int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stamps++
	return t.stamps*int64(size) + int64(rank)
}

// ask asks for the word of this rank: 1, or 0.
func (t *turns) ask(number int64) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.numbers, number) {
		t.numbers = append(t.numbers, number)
	}
	if t.holder != 0 || number != slices.Min(t.numbers) {
		return 0
	}
	t.holder = number
	return 1
}

// release takes the word back, if the split has it.
func (t *turns) release(number int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder == number {
		t.holder = 0
	}
}

// leave is release of a split that is over.
func (t *turns) leave(number int64) {
	t.release(number)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.numbers = slices.DeleteFunc(t.numbers, func(n int64) bool { return n == number })
}
