package local

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/internal/hosted"
	"github.com/pinion-gpu/pinion/parallel/internal/reduce"
)

// hub is where the ranks of a group meet.
type hub struct {
	size int

	mu      sync.Mutex
	changed sync.Cond
	reasons []error             // by rank: why it takes part in nothing any more
	next    *meeting            // that nobody, or not everybody, has come to
	waiting map[[2]int][]*offer // by sender and receiver: transfers whose other side has not come
}

func newHub(size int) *hub {
	h := &hub{size: size, reasons: make([]error, size), next: newMeeting(size), waiting: map[[2]int][]*offer{}}
	h.changed.L = &h.mu
	return h
}

// meeting is one operation of all ranks.
type meeting struct {
	calls      []call // by rank
	come, done int
	err        error
	parts      []*engine // by rank, of a split
}

func newMeeting(size int) *meeting { return &meeting{calls: make([]call, size)} }

// call is what a rank wants of the others.
type call struct {
	what       string
	op         hosted.Op
	color, key int
}

// String is for errors about calls that are not the same.
func (c call) String() string {
	switch {
	case c.what != "":
		return c.what
	case c.op.Kind == hosted.AllReduce || c.op.Kind == hosted.ReduceScatter:
		return fmt.Sprintf("%v of %s of %v, %v", c.op.Kind, units.Bytes(int64(len(c.op.Send))), c.op.Type, c.op.Op)
	case c.op.Kind == hosted.Broadcast:
		return fmt.Sprintf("%v of %s from rank %d", c.op.Kind, units.Bytes(int64(len(c.op.Recv))), c.op.Peer)
	}
	return fmt.Sprintf("%v of %s", c.op.Kind, units.Bytes(int64(len(c.op.Send))))
}

// meet waits for the calls of all ranks, has each do its part, and waits until all have.
func (h *hub) meet(rank int, c call) (*meeting, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.next
	m.calls[rank] = c
	if m.come++; m.come == h.size {
		h.next = newMeeting(h.size)
		h.begin(m)
		h.changed.Broadcast()
	}
	for m.come < h.size {
		if err := h.reasons[rank]; err != nil {
			m.come-- // its memory is not to be touched: the others wait in vain
			return nil, err
		}
		h.changed.Wait()
	}
	if m.err != nil {
		return nil, m.err
	}
	h.mu.Unlock()
	do(m.calls, rank)
	h.mu.Lock()
	// Others are in this rank's memory, for no longer than they compute.
	if m.done++; m.done == h.size {
		h.changed.Broadcast()
	}
	for m.done < h.size {
		h.changed.Wait()
	}
	return m, nil
}

// begin is called when all ranks have come.
func (h *hub) begin(m *meeting) {
	for rank, c := range m.calls {
		if c.String() != m.calls[0].String() {
			m.err = fmt.Errorf("parallel: %w: rank 0 makes %v, rank %d makes %v", parallel.ErrMismatch, m.calls[0], rank, c)
			return
		}
	}
	if m.calls[0].what == split {
		m.parts = parts(m.calls)
	}
}

const (
	barrier = "a barrier"
	split   = "a split"
)

// parts makes the groups of a split.
func parts(calls []call) []*engine {
	byColor := map[int][]int{}
	for rank, c := range calls {
		if c.color >= 0 {
			byColor[c.color] = append(byColor[c.color], rank)
		}
	}
	engines := make([]*engine, len(calls))
	for _, ranks := range byColor {
		slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(calls[a].key, calls[b].key) })
		part := newHub(len(ranks))
		for i, rank := range ranks {
			engines[rank] = &engine{part, i}
		}
	}
	return engines
}

// do does one rank's part of an operation: what no other rank writes.
func do(calls []call, rank int) {
	own := calls[rank].op
	switch {
	case calls[rank].what != "":
	case own.Kind == hosted.AllReduce:
		// A stretch of the elements, for everybody.
		size, n := own.Type.Size(), len(own.Send)/own.Type.Size()
		from, to := n*rank/len(calls)*size, n*(rank+1)/len(calls)*size
		var sends, recvs [][]byte
		for _, c := range calls {
			sends, recvs = append(sends, c.op.Send[from:to]), append(recvs, c.op.Recv[from:to])
		}
		reduce.Into(recvs, sends, own.Type, own.Op)
	case own.Kind == hosted.ReduceScatter:
		n := len(own.Recv)
		var sends [][]byte
		for _, c := range calls {
			sends = append(sends, c.op.Send[rank*n:(rank+1)*n])
		}
		reduce.Into([][]byte{own.Recv}, sends, own.Type, own.Op)
	case own.Kind == hosted.AllGather:
		n := len(own.Send)
		for _, c := range calls {
			move(c.op.Recv[rank*n:(rank+1)*n], own.Send)
		}
	case own.Kind == hosted.Broadcast:
		move(own.Recv, calls[own.Peer].op.Recv)
	}
}

// move copies, unless it is the same memory: others may be reading that.
func move(dst, src []byte) {
	if unsafe.SliceData(dst) != unsafe.SliceData(src) {
		copy(dst, src)
	}
}

// offer is one side of a transfer.
type offer struct {
	pair  [2]int // sender and receiver
	out   bool
	bytes []byte
	met   bool
	err   error
}

// transfer makes transfers, which go on at the same time.
func (h *hub) transfer(rank int, ops []hosted.Op) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var own []*offer
	for _, op := range ops {
		o := &offer{pair: [2]int{rank, op.Peer}, out: true, bytes: op.Send}
		if op.Kind == hosted.In {
			o = &offer{pair: [2]int{op.Peer, rank}, bytes: op.Recv}
		}
		own = append(own, o)
		h.offer(o)
	}
	h.changed.Broadcast()
	for _, o := range own {
		for !o.met {
			if err := h.reasons[rank]; err != nil {
				h.takeBack(own)
				return err
			}
			h.changed.Wait()
		}
	}
	for _, o := range own {
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// offer makes the transfer if the other side waits for it, or else waits for that.
func (h *hub) offer(o *offer) {
	queue := h.waiting[o.pair]
	if len(queue) == 0 || queue[0].out == o.out {
		h.waiting[o.pair] = append(queue, o)
		return
	}
	other := queue[0]
	h.waiting[o.pair] = queue[1:]
	from, to := o, other
	if !o.out {
		from, to = other, o
	}
	if len(from.bytes) != len(to.bytes) {
		err := fmt.Errorf("parallel: %w: rank %d sends %s, rank %d receives %s", parallel.ErrMismatch,
			o.pair[0], units.Bytes(int64(len(from.bytes))), o.pair[1], units.Bytes(int64(len(to.bytes))))
		from.err, to.err = err, err
	} else {
		copy(to.bytes, from.bytes)
	}
	from.met, to.met = true, true
}

func (h *hub) takeBack(own []*offer) {
	for _, o := range own {
		h.waiting[o.pair] = slices.DeleteFunc(h.waiting[o.pair], func(x *offer) bool { return x == o })
	}
}

// leave ends what a rank waits for.
func (h *hub) leave(rank int, reason error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reasons[rank] = reason
	h.changed.Broadcast()
}
