package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
)

var ctx = context.Background()

func testIdentity(r *rank) {
	if r.Size() < 1 || r.Rank() < 0 || r.Rank() >= r.Size() {
		r.fail("rank %d of %d", r.Rank(), r.Size())
	}
	if r.Device() == nil {
		r.fail("no device")
	}
}

// everyone is what all ranks send.
func (r *rank) everyone(t dtype.DType, n int, seed uint64) (all [][]byte) {
	for k := range r.Size() {
		all = append(all, values(t, n, seed, k))
	}
	return all
}

func testAllReduce(r *rank) {
	for i, n := range []int{1, 2, 3, 7, 64, 1000, 20_001} {
		for _, inPlace := range []bool{false, true} {
			all := r.everyone(dtype.F32, n, uint64(i))
			send := r.memory(all[r.Rank()])
			recv := send
			if !inPlace {
				recv = r.memory(make([]byte, 4*n))
			}
			r.ok(r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: recv, Send: send, N: int64(n)}))
			r.sameNumbers(fmt.Sprintf("%d elements", n), dtype.F32, r.content(recv, 4*n), combined(dtype.F32, parallel.Sum, all), true)
			if !inPlace && !bytes.Equal(r.content(send, 4*n), all[r.Rank()]) {
				r.fail("%d elements: what was sent changed", n)
			}
		}
	}
	r.ok(r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{}))
}

// Several parts are one operation.
func testParts(r *rank) {
	sizes := []int{1, 0, 1000, 37}
	var sums, gathers []parallel.Part
	for i, n := range sizes {
		p := r.memory(values(dtype.F32, n, uint64(i), r.Rank()))
		q := r.memory(make([]byte, 4*n*r.Size()))
		sums = append(sums, parallel.Part{Recv: p, Send: p, N: int64(n)})
		gathers = append(gathers, parallel.Part{Recv: q, Send: p, N: int64(4 * n)})
	}
	r.ok(r.AllGather(r.s, gathers...))
	r.ok(r.AllReduce(r.s, dtype.F32, parallel.Sum, sums...))
	for i, n := range sizes {
		all := r.everyone(dtype.F32, n, uint64(i))
		what := fmt.Sprintf("part %d", i)
		if !bytes.Equal(r.content(gathers[i].Recv, 4*n*r.Size()), slices.Concat(all...)) {
			r.fail("%s: not what ranks have", what)
		}
		r.sameNumbers(what, dtype.F32, r.content(sums[i].Recv, 4*n), combined(dtype.F32, parallel.Sum, all), true)
	}
	r.ok(r.AllReduce(r.s, dtype.F32, parallel.Sum))
}

func testAllReduceTypes(r *rank) {
	const n = 1037
	for t := dtype.U8; t <= dtype.Bool; t++ {
		for op := parallel.Sum; op <= parallel.Avg; op++ {
			if !parallel.Reduces(t, op) {
				continue
			}
			all := r.everyone(t, n, uint64(t)*16+uint64(op))
			p := r.memory(all[r.Rank()])
			r.ok(r.AllReduce(r.s, t, op, parallel.Part{Recv: p, Send: p, N: n}))
			r.sameNumbers(fmt.Sprintf("%v of %v", op, t), t, r.content(p, n*t.Size()), combined(t, op, all), op != parallel.Avg)
		}
	}
}

// All ranks have the same bits, where sums are rounded, too.
func testSameBits(r *rank) {
	const n = 1003
	for _, t := range []dtype.DType{dtype.F32, dtype.BF16, dtype.F16} {
		random := rand.New(rand.NewPCG(9, uint64(r.Rank())))
		x := make([]float64, n)
		for i := range x {
			x[i] = random.NormFloat64()
		}
		size := n * t.Size()
		p, everything := r.memory(encode(t, x)), r.memory(make([]byte, size*r.Size()))
		r.ok(r.AllReduce(r.s, t, parallel.Sum, parallel.Part{Recv: p, Send: p, N: n}))
		r.ok(r.AllGather(r.s, parallel.Part{Recv: everything, Send: p, N: int64(size)}))
		own, all := r.content(p, size), r.content(everything, size*r.Size())
		for k := range r.Size() {
			if !bytes.Equal(all[k*size:(k+1)*size], own) {
				r.fail("%v: rank %d has other bits", t, k)
			}
		}
	}
}

func testReduceScatter(r *rank) {
	for i, n := range []int{1, 5, 1000} {
		for _, inPlace := range []bool{false, true} {
			all := r.everyone(dtype.I32, n*r.Size(), uint64(i))
			send := r.memory(all[r.Rank()])
			recv := send.Add(int64(4 * n * r.Rank()))
			if !inPlace {
				recv = r.memory(make([]byte, 4*n))
			}
			r.ok(r.ReduceScatter(r.s, dtype.I32, parallel.Max, parallel.Part{Recv: recv, Send: send, N: int64(n)}))
			want := combined(dtype.I32, parallel.Max, all)[n*r.Rank() : n*(r.Rank()+1)]
			r.sameNumbers(fmt.Sprintf("%d elements", n), dtype.I32, r.content(recv, 4*n), want, true)
		}
	}
}

func testAllGather(r *rank) {
	for i, n := range []int{1, 13, 4096, 30_003} {
		for _, inPlace := range []bool{false, true} {
			all := r.everyone(dtype.U8, n, uint64(i))
			recv := r.memory(make([]byte, n*r.Size()))
			send := recv.Add(int64(n * r.Rank()))
			if inPlace {
				r.ok(r.s.CopyH2D(send, all[r.Rank()]))
			} else {
				send = r.memory(all[r.Rank()])
			}
			r.ok(r.AllGather(r.s, parallel.Part{Recv: recv, Send: send, N: int64(n)}))
			if !bytes.Equal(r.content(recv, n*r.Size()), slices.Concat(all...)) {
				r.fail("%d bytes, in place %t: not those of all ranks", n, inPlace)
			}
		}
	}
}

func testBroadcast(r *rank) {
	for root := range r.Size() {
		for i, n := range []int{1, 100, 65_537} {
			all := r.everyone(dtype.U8, n, uint64(i))
			p := r.memory(all[r.Rank()])
			r.ok(r.Broadcast(r.s, p, int64(n), root))
			if !bytes.Equal(r.content(p, n), all[root]) {
				r.fail("%d bytes from rank %d: others", n, root)
			}
		}
	}
}

func testRing(r *rank) {
	next, before := (r.Rank()+1)%r.Size(), (r.Rank()+r.Size()-1)%r.Size()
	for i, n := range []int{1, 1000, 100_000} {
		all := r.everyone(dtype.U8, n, uint64(i))
		send, recv := r.memory(all[r.Rank()]), r.memory(make([]byte, n))
		r.ok(r.Exchange(r.s, parallel.Send(send, int64(n), next), parallel.Recv(recv, int64(n), before)))
		if !bytes.Equal(r.content(recv, n), all[before]) {
			r.fail("%d bytes from rank %d: others", n, before)
		}
	}
}

func testAllToAll(r *rank) {
	const n = 999
	all := r.everyone(dtype.U8, n*r.Size(), 1)
	send, recv := r.memory(all[r.Rank()]), r.memory(make([]byte, n*r.Size()))
	var transfers []parallel.Transfer
	for k := range r.Size() {
		at := int64(k * n)
		transfers = append(transfers, parallel.Recv(recv.Add(at), n, k), parallel.Send(send.Add(at), n, k))
	}
	r.ok(r.Exchange(r.s, transfers...))
	got := r.content(recv, n*r.Size())
	for k := range r.Size() {
		if !bytes.Equal(got[k*n:(k+1)*n], all[k][r.Rank()*n:(r.Rank()+1)*n]) {
			r.fail("from rank %d: others", k)
		}
	}
}

// Between two ranks, transfers meet in their order, over several calls, and other ranks
// take no part.
func testExchangeOrder(r *rank) {
	if r.Size() < 2 || r.Rank() > 1 {
		return
	}
	const n = 64
	for i := range 20 {
		a, b := values(dtype.U8, n, uint64(i), 0), values(dtype.U8, n/2, uint64(i), 1)
		if r.Rank() == 0 {
			x, y := r.memory(a), r.memory(b)
			r.ok(r.Exchange(r.s, parallel.Send(x, n, 1), parallel.Send(y, n/2, 1)))
			continue
		}
		x, y := r.memory(make([]byte, n)), r.memory(make([]byte, n/2))
		if i%2 == 0 {
			r.ok(r.Exchange(r.s, parallel.Recv(x, n, 0), parallel.Recv(y, n/2, 0)))
		} else {
			r.ok(r.Exchange(r.s, parallel.Recv(x, n, 0)))
			r.ok(r.Exchange(r.s, parallel.Recv(y, n/2, 0)))
		}
		if !bytes.Equal(r.content(x, n), a) || !bytes.Equal(r.content(y, n/2), b) {
			r.fail("transfer %d: others", i)
		}
	}
}

func testItself(r *rank) {
	const n = 100
	b := values(dtype.U8, n, 3, r.Rank())
	send, recv := r.memory(b), r.memory(make([]byte, n))
	r.ok(r.Exchange(r.s, parallel.Send(send, n, r.Rank()), parallel.Recv(recv, n, r.Rank())))
	if !bytes.Equal(r.content(recv, n), b) {
		r.fail("others")
	}
}

// What is queued before is done before, and what is queued after comes after.
func testStreamOrder(r *rank) {
	const n = 1 << 20
	p, copied := r.memory(make([]byte, n)), r.memory(make([]byte, n))
	for i := range 5 {
		r.ok(r.s.Memset(p, byte(i+1), n))
		r.ok(r.AllReduce(r.s, dtype.U8, parallel.Sum, parallel.Part{Recv: p, Send: p, N: n}))
		r.ok(r.s.CopyD2D(copied, p, n))
		r.ok(r.s.Memset(p, 99, n))
	}
	want := byte(5 * r.Size())
	if got := r.content(copied, n); got[0] != want || got[n-1] != want {
		r.fail("%d and %d, want %d", got[0], got[n-1], want)
	}
}

// Operations run in the order of the calls, on whatever streams.
func testTwoStreams(r *rank) {
	other := r.stream()
	const n = 4099
	all := r.everyone(dtype.F64, n, 5)
	want := combined(dtype.F64, parallel.Sum, all)
	for range 10 {
		p, q := r.memory(all[r.Rank()]), r.memory(all[r.Rank()])
		first, second := r.s, other
		if r.Rank()%2 == 1 {
			first, second = other, r.s
		}
		r.ok(r.AllReduce(first, dtype.F64, parallel.Sum, parallel.Part{Recv: p, Send: p, N: n}))
		r.ok(r.AllReduce(second, dtype.F64, parallel.Sum, parallel.Part{Recv: q, Send: q, N: n}))
		r.ok(other.Synchronize())
		r.ok(r.s.Synchronize())
		for _, m := range []device.Ptr{p, q} {
			r.sameNumbers("a sum", dtype.F64, r.content(m, 8*n), want, true)
		}
	}
}

func testBarrier(r *rank) {
	for range 5 {
		r.ok(r.Barrier(ctx))
	}
	// An operation that was queued before is done.
	p := r.memory(encode(dtype.F32, []float64{1}))
	r.ok(r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 1}))
	r.ok(r.Barrier(ctx))
	r.sameNumbers("a sum", dtype.F32, r.content(p, 4), []float64{float64(r.Size())}, true)
}

func testSplit(r *rank) {
	part, err := r.Split(ctx, r.Rank()%2, -r.Rank())
	r.ok(err)
	var ranks []int // of the part, in its order
	for k := r.Size() - 1; k >= 0; k-- {
		if k%2 == r.Rank()%2 {
			ranks = append(ranks, k)
		}
	}
	if part.Size() != len(ranks) || ranks[part.Rank()] != r.Rank() {
		r.fail("rank %d of %d, want %v", part.Rank(), part.Size(), ranks)
	}
	var sends [][]byte
	for _, k := range ranks {
		sends = append(sends, values(dtype.F32, 50, 8, k))
	}
	p := r.memory(values(dtype.F32, 50, 8, r.Rank()))
	r.ok(part.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 50}))
	r.sameNumbers("a sum of the part", dtype.F32, r.content(p, 200), combined(dtype.F32, parallel.Sum, sends), true)
	r.ok(part.Close())

	color := 0
	if r.Rank() == r.Size()-1 {
		color = -1
	}
	part, err = r.Split(ctx, color, 0)
	r.ok(err)
	if (part == nil) != (color < 0) {
		r.fail("color %d: %v", color, part)
	}
	if part != nil {
		r.ok(part.Barrier(ctx))
		r.ok(part.Close())
	}
	testBarrier(r) // the group lives on
}

// Many operations, the same on all ranks, against what they mean.
func testRandom(r *rank) {
	const most = 300
	random := rand.New(rand.NewPCG(77, uint64(r.Size())))
	streams := []device.Stream{r.s, r.stream(), r.stream()}
	for i := range 100 {
		n, seed := 1+random.IntN(most), uint64(1000+i)
		all := r.everyone(dtype.F32, n*r.Size(), seed)
		s := streams[random.IntN(len(streams))]
		kind, root := random.IntN(5), random.IntN(r.Size())
		size := int64(4 * n)
		send, recv := r.memory(all[r.Rank()]), r.memory(make([]byte, 4*n*r.Size()))
		own := func(k int) []byte { return all[k][:4*n] }
		var want []byte
		var err error
		switch kind {
		case 0:
			err = r.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: recv, Send: send, N: int64(n)})
			want = encode(dtype.F32, combined(dtype.F32, parallel.Sum, all)[:n])
		case 1:
			err = r.ReduceScatter(s, dtype.F32, parallel.Min, parallel.Part{Recv: recv, Send: send, N: int64(n)})
			want = encode(dtype.F32, combined(dtype.F32, parallel.Min, all)[n*r.Rank():n*(r.Rank()+1)])
		case 2:
			err = r.AllGather(s, parallel.Part{Recv: recv, Send: send, N: size})
			for k := range r.Size() {
				want = append(want, own(k)...)
			}
		case 3:
			err = r.Broadcast(s, send, size, root)
			recv, want = send, own(root)
		case 4: // everybody sends to the root
			var list []parallel.Transfer
			if r.Rank() == root {
				for k := range r.Size() {
					list = append(list, parallel.Recv(recv.Add(int64(k)*size), size, k))
					want = append(want, own(k)...)
				}
			}
			err = r.Exchange(s, append(list, parallel.Send(send, size, root))...)
		}
		r.ok(err)
		r.ok(s.Synchronize())
		if got := r.content(recv, len(want)); !bytes.Equal(got, want) {
			r.fail("operation %d of kind %d with %d elements: others", i, kind, n)
		}
	}
}

func testArguments(r *rank) {
	p := r.memory(make([]byte, 1024))
	for what, err := range map[string]error{
		"a negative number":    r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: -1}),
		"a type of no numbers": r.AllReduce(r.s, dtype.Bool, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 1}),
		"an average of ints":   r.ReduceScatter(r.s, dtype.I32, parallel.Avg, parallel.Part{Recv: p, Send: p, N: 1}),
		"an unknown operation": r.AllReduce(r.s, dtype.F32, parallel.Avg+1, parallel.Part{Recv: p, Send: p, N: 1}),
		"an odd address":       r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p.Add(1), Send: p.Add(1), N: 1}),
		"negative bytes":       r.AllGather(r.s, parallel.Part{Recv: p, Send: p, N: -5}),
		"a root that is not":   r.Broadcast(r.s, p, 1, r.Size()),
		"a peer that is not":   r.Exchange(r.s, parallel.Send(p, 1, -1)),
		"a negative transfer":  r.Exchange(r.s, parallel.Recv(p, -1, 0)),
		"no stream":            r.AllReduce(nil, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 1}),
	} {
		r.want(what, err, parallel.ErrArgument)
	}
	testBarrier(r) // nothing was queued
}

// A rank that never comes does not keep the others: Abort ends what they wait for.
func testAbort(r *rank) {
	if r.Size() == 1 {
		return
	}
	c, s := r.twin(), r.stream()
	reason := errors.New("rank 0 was seen to fall")
	p := r.memory(make([]byte, 4096))
	queued := make(chan error, 2)
	if r.Rank() > 0 {
		go func() { // a first operation may wait for the others
			queued <- c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 1024})
			queued <- c.Broadcast(s, p, 4096, 0)
		}()
		if _, hosted := device.As[device.Caller](r.Device()); hosted {
			r.ok(<-queued)
			r.ok(<-queued)
			queued <- nil
			queued <- nil
		}
	}
	c.Abort(reason)
	c.Abort(errors.New("another reason"))
	if r.Rank() > 0 {
		for range 2 {
			if err := <-queued; err != nil {
				r.want("a call that waits", err, parallel.ErrAborted, reason)
			}
		}
		err := s.Synchronize()
		if _, hosted := device.As[device.Caller](r.Device()); hosted || err != nil {
			r.want("what was queued", err, parallel.ErrAborted, reason)
		}
	}
	r.want("a call behind Abort", c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 1024}), parallel.ErrAborted, reason)
	r.want("a barrier behind Abort", c.Barrier(ctx), parallel.ErrAborted, reason)
	r.ok(c.Close())
	testBarrier(r) // the group that it came from lives on
}

// A barrier ends with its context.
func testBarrierContext(r *rank) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	r.want("a context that is over", r.Barrier(over), context.Canceled)
	if r.Size() == 1 {
		return
	}
	c := r.twin()
	if r.Rank() > 0 {
		waiting, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- c.Barrier(waiting) }()
		cancel()
		r.want("a barrier that not all came to", <-done, context.Canceled)
	}
	c.Abort(context.Canceled)
	r.ok(c.Close())
	testBarrier(r)
}

func testClosed(r *rank) {
	c := r.twin()
	p := r.memory(make([]byte, 64))
	r.ok(c.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 16}))
	r.ok(c.Close())
	r.ok(c.Close())
	r.want("an operation", c.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 16}), parallel.ErrClosed)
	r.want("a barrier", c.Barrier(ctx), parallel.ErrClosed)
	_, err := c.Split(ctx, 0, 0)
	r.want("a split", err, parallel.ErrClosed)
	r.ok(r.s.Synchronize())
	testBarrier(r)
}
