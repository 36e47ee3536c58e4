package copies

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
)

// AllReduce implements [parallel.Comm]: each rank adds up a share of the values, which the others
// then copy.
func (c *comm) AllReduce(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	l := lengths(parts, int64(t.Size()))
	if !c.adds(t, op) || l.bytes < leastBytes {
		return c.others(s, func() error { return c.Comm.AllReduce(s, t, op, parts...) })
	}
	if err := c.check("all-reduce", t, op, parts, l, 1, 1); err != nil {
		return err
	}
	all := int64(c.Size())
	return c.queue("all-reduce", s, func(q *queue) {
		for at := int64(0); at < l.bytes; at += all * c.slotBytes {
			n := min(all*c.slotBytes, l.bytes-at)
			share := roundUp((n + all - 1) / all)
			from := func(rank int) (int64, int64) { return at + min(int64(rank)*share, n), at + min(int64(rank+1)*share, n) }
			q.begin()
			q.scatter(func(rank int, each func(own device.Ptr, in, bytes int64)) {
				begin, end := from(rank)
				l.between(begin, end, func(p piece) { each(parts[p.part].Send.Add(p.from), p.at, p.bytes) })
			})
			begin, end := from(c.Rank())
			l.between(begin, end, func(p piece) {
				x := parts[p.part]
				q.sum(t, op, x.Recv.Add(p.from), c.result(c.Rank()).Add(p.at), x.Send.Add(p.from), p)
			})
			q.gather(func(rank int, each func(own device.Ptr, in, bytes int64)) {
				begin, end := from(rank)
				l.between(begin, end, func(p piece) { each(parts[p.part].Recv.Add(p.from), p.at, p.bytes) })
			})
			q.end()
		}
	})
}

// ReduceScatter implements [parallel.Comm].
func (c *comm) ReduceScatter(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	l := lengths(parts, int64(t.Size()))
	all := int64(c.Size())
	if !c.adds(t, op) || all*l.bytes < leastBytes {
		return c.others(s, func() error { return c.Comm.ReduceScatter(s, t, op, parts...) })
	}
	if err := c.check("reduce-scatter", t, op, parts, l, all, 1); err != nil {
		return err
	}
	return c.queue("reduce-scatter", s, func(q *queue) {
		for at := int64(0); at < l.bytes; at += c.slotBytes {
			end := min(at+c.slotBytes, l.bytes)
			mine := func(rank int, p piece) device.Ptr { return parts[p.part].Send.Add(int64(rank)*l.each[p.part] + p.from) }
			q.begin()
			q.scatter(func(rank int, each func(own device.Ptr, in, bytes int64)) {
				l.between(at, end, func(p piece) { each(mine(rank, p), p.at, p.bytes) })
			})
			l.between(at, end, func(p piece) { q.sum(t, op, parts[p.part].Recv.Add(p.from), 0, mine(c.Rank(), p), p) })
			q.end()
		}
	})
}

// AllGather implements [parallel.Comm].
func (c *comm) AllGather(s device.Stream, parts ...parallel.Part) error {
	l := lengths(parts, 1)
	all := int64(c.Size())
	if all*l.bytes < leastBytes {
		return c.others(s, func() error { return c.Comm.AllGather(s, parts...) })
	}
	if err := c.check("all-gather", dtype.U8, parallel.Max, parts, l, 1, all); err != nil {
		return err
	}
	return c.queue("all-gather", s, func(q *queue) {
		for at := int64(0); at < l.bytes; at += c.slotBytes {
			end := min(at+c.slotBytes, l.bytes)
			place := func(rank int, p piece) device.Ptr { return parts[p.part].Recv.Add(int64(rank)*l.each[p.part] + p.from) }
			q.begin()
			l.between(at, end, func(p piece) {
				from := parts[p.part].Send.Add(p.from)
				q.copy(c.result(c.Rank()).Add(p.at), from, p.bytes)
				if to := place(c.Rank(), p); to != from {
					q.copy(to, from, p.bytes)
				}
			})
			q.gather(func(rank int, each func(own device.Ptr, in, bytes int64)) {
				l.between(at, end, func(p piece) { each(place(rank, p), p.at, p.bytes) })
			})
			q.end()
		}
	})
}

// Broadcast implements [parallel.Comm].
func (c *comm) Broadcast(s device.Stream, p device.Ptr, bytes int64, root int) error {
	return c.others(s, func() error { return c.Comm.Broadcast(s, p, bytes, root) })
}

// Exchange implements [parallel.Comm].
func (c *comm) Exchange(s device.Stream, transfers ...parallel.Transfer) error {
	return c.others(s, func() error { return c.Comm.Exchange(s, transfers...) })
}

// adds reports whether there is a kernel.
func (c *comm) adds(t dtype.DType, op parallel.Op) bool {
	return (op == parallel.Sum || op == parallel.Avg) && (t == dtype.F16 || t == dtype.BF16 || t == dtype.F32 || t == dtype.F64)
}

// check refuses arguments before anything is queued: so many times its length is sent of a part,
// and received.
func (c *comm) check(what string, t dtype.DType, op parallel.Op, parts []parallel.Part, l layout, sent, received int64) error {
	if err := parallel.CheckReduce(what, t, op, parts); err != nil {
		return err
	}
	for i, x := range parts {
		for _, m := range []struct {
			p     device.Ptr
			times int64
		}{{x.Send, sent}, {x.Recv, received}} {
			if n := l.each[i] * m.times; n > 0 {
				if err := c.ranges.CheckRange(m.p, n); err != nil {
					return fmt.Errorf("copies: %s: %w", what, err)
				}
			}
		}
	}
	return nil
}

// others makes a call that does not go by copies. It comes behind the copies that were queued
// before, on whatever stream.
func (c *comm) others(s device.Stream, call func() error) error {
	c.mu.Lock()
	err := c.behind(s)
	c.mu.Unlock() // the call may wait for ranks
	if err != nil {
		return err
	}
	return call()
}

// behind has what follows on s wait for the copies before it. Those in a capture are in the order
// of their graphs. The caller holds mu.
func (c *comm) behind(s device.Stream) error {
	if c.last == nil || s == nil || s == c.last || c.captures(s) {
		return nil
	}
	return s.Wait(c.after)
}

func (c *comm) captures(s device.Stream) bool { return c.graphs != nil && c.graphs.Capturing(s) }

// queue is an operation that is being queued on a stream. The first error stays.
type queue struct {
	c   *comm
	s   device.Stream
	err error
}

// queue queues an operation, all of it or what went before an error, which other ranks wait for
// until they are aborted.
func (c *comm) queue(what string, s device.Stream, fn func(*queue)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// An operation of nothing: is there a stream, and a communicator that was not aborted?
	if err := c.Comm.Broadcast(s, 0, 0, 0); err != nil {
		return err
	}
	if err := c.behind(s); err != nil {
		return fmt.Errorf("copies: %s: %w", what, err)
	}
	q := &queue{c: c, s: s}
	fn(q)
	q.do(func() error { return c.sums.fails(s, c.aborts) })
	if q.err == nil && !c.captures(s) {
		if q.err = s.Record(c.after); q.err == nil {
			c.last = s
		}
	}
	if q.err != nil {
		return fmt.Errorf("copies: %s: %w", what, q.err)
	}
	return nil
}

func (q *queue) do(fn func() error) {
	if q.err == nil {
		q.err = fn()
	}
}

func (q *queue) copy(to, from device.Ptr, bytes int64) {
	q.do(func() error { return q.s.CopyD2D(to, from, bytes) })
}

// signal sets this rank's word of a kind on another.
func (q *queue) signal(rank, kind int) {
	q.do(func() error { return q.c.share.Signal(q.s, q.c.word(rank, kind, q.c.Rank())) })
}

// signalAll sets it on all others.
func (q *queue) signalAll(kind int) {
	for rank := range q.c.Size() {
		if rank != q.c.Rank() {
			q.signal(rank, kind)
		}
	}
}

// await waits for the words of a kind of all others.
func (q *queue) await(kind int) {
	q.do(func() error {
		var words []device.Ptr
		for rank := range q.c.Size() {
			if rank != q.c.Rank() {
				words = append(words, q.c.word(q.c.Rank(), kind, rank))
			}
		}
		return q.c.share.Await(q.s, words...)
	})
}

// begin waits until the others are through with the last operation.
func (q *queue) begin() { q.await(done) }

// end tells them that this rank is.
func (q *queue) end() { q.signalAll(done) }

// spread calls fn for each other rank, and has that call each for the pieces of that rank: where
// they are in this one's memory, and in a slot. Ranks begin with the one behind them, so that
// they do not all copy to the same one.
func (q *queue) spread(fn func(rank int)) {
	for i := 1; i < q.c.Size(); i++ {
		fn((q.c.Rank() + i) % q.c.Size())
	}
}

// scatter sends the others their pieces, and waits for those from them.
func (q *queue) scatter(pieces func(rank int, each func(own device.Ptr, in, bytes int64))) {
	q.spread(func(rank int) {
		slot := q.c.slot(rank, q.c.Rank())
		pieces(rank, func(own device.Ptr, in, bytes int64) { q.copy(slot.Add(in), own, bytes) })
		q.signal(rank, arrived)
	})
	q.await(arrived)
}

// gather copies the pieces that the others have as results, when they are ready, as this one's are.
func (q *queue) gather(pieces func(rank int, each func(own device.Ptr, in, bytes int64))) {
	q.signalAll(ready)
	q.await(ready)
	q.spread(func(rank int) {
		result := q.c.result(rank)
		pieces(rank, func(own device.Ptr, in, bytes int64) { q.copy(own, result.Add(in), bytes) })
	})
}

// sum adds what others sent of a piece to what is at own.
func (q *queue) sum(t dtype.DType, op parallel.Op, out, copy, own device.Ptr, p piece) {
	q.do(func() error {
		return q.c.sums.sum(q.s, addition{
			t: t, mean: op == parallel.Avg, out: out, copy: copy, own: own, words: p.bytes / int64(t.Size()),
			slots: q.c.slot(q.c.Rank(), 0).Add(p.at), slotBytes: q.c.slotBytes, ranks: q.c.Size(), rank: q.c.Rank(),
		})
	})
}

// layout is parts one behind the other, each from a whole unit on.
type layout struct {
	each  []int64 // bytes of a part
	bytes int64   // of all, with what is between them
}

func lengths(parts []parallel.Part, size int64) (l layout) {
	for _, x := range parts {
		n := max(x.N, 0) * size
		l.each = append(l.each, n)
		l.bytes += roundUp(n)
	}
	return l
}

func roundUp(n int64) int64 { return (n + unit - 1) / unit * unit }

// piece is some bytes of a part, and where they are behind the begin of a stretch.
type piece struct {
	part        int
	from, bytes int64
	at          int64
}

// between calls fn for the pieces of a stretch of the layout, from whole units to whole units.
func (l layout) between(begin, end int64, fn func(piece)) {
	at := int64(0) // of a part
	for i, n := range l.each {
		from, to := max(begin-at, 0), min(end-at, n)
		if from < to {
			fn(piece{part: i, from: from, bytes: to - from, at: at + from - begin})
		}
		at += roundUp(n)
	}
}
