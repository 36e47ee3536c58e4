package collbench

import (
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
)

// The operations.
const (
	AllReduce     = "all-reduce"
	ReduceScatter = "reduce-scatter"
	AllGather     = "all-gather"
	Broadcast     = "broadcast"
	SendReceive   = "send-receive"
	AllToAll      = "all-to-all"
)

// Operations lists all of them, in the order in which they are measured.
func Operations() []string {
	return []string{AllReduce, ReduceScatter, AllGather, Broadcast, SendReceive, AllToAll}
}

// Reduces reports whether an operation combines elements by Options.Op.
func Reduces(operation string) bool { return operation == AllReduce || operation == ReduceScatter }

// shares reports whether the size of an operation is that of a share for each rank.
func shares(operation string) bool {
	return operation == ReduceScatter || operation == AllGather || operation == AllToAll
}

// BusFactor is the bus bandwidth of an operation over its algorithm bandwidth.
func BusFactor(operation string, ranks int) float64 {
	n := float64(ranks)
	switch {
	case operation == AllReduce:
		return 2 * (n - 1) / n
	case shares(operation):
		return (n - 1) / n
	}
	return 1
}

// operation is one of a size, as a rank makes it.
type operation struct {
	sends, gets int64   // bytes
	wants       []piece // of what it gets
	queue       func(send, recv device.Ptr) error

	apart   bool // there is one out of place
	inPlace bool
	// In place, the smaller of the buffers lies here in the larger one.
	share int64
}

// piece is a stretch of memory, and what is to be there.
type piece struct {
	at, bytes int64
	pattern
}

func (b *bench) operation(name string, size int64) operation {
	n, me := b.Comm.Size(), b.Comm.Rank()
	share, element := size/int64(n), int64(b.Type.Size())
	begins := share * int64(me)
	o := operation{sends: size, gets: size, apart: true}
	switch name {
	case AllReduce:
		o.inPlace = true
		o.wants = []piece{{0, size, b.combined}}
		o.queue = func(send, recv device.Ptr) error {
			return b.Comm.AllReduce(b.stream, b.Type, b.Op, parallel.Part{Recv: recv, Send: send, N: size / element})
		}
	case ReduceScatter:
		o.gets, o.inPlace, o.share = share, true, begins
		o.wants = []piece{{0, share, b.combined.from(begins)}}
		o.queue = func(send, recv device.Ptr) error {
			return b.Comm.ReduceScatter(b.stream, b.Type, b.Op, parallel.Part{Recv: recv, Send: send, N: share / element})
		}
	case AllGather:
		o.sends, o.inPlace, o.share = share, true, begins
		for k := range n {
			o.wants = append(o.wants, piece{int64(k) * share, share, bytesOf(k)})
		}
		o.queue = func(send, recv device.Ptr) error {
			return b.Comm.AllGather(b.stream, parallel.Part{Recv: recv, Send: send, N: share})
		}
	case Broadcast:
		o.apart, o.inPlace = false, true
		o.wants = []piece{{0, size, bytesOf(0)}}
		o.queue = func(p, _ device.Ptr) error { return b.Comm.Broadcast(b.stream, p, size, 0) }
	case SendReceive:
		next, before := (me+1)%n, (me+n-1)%n
		o.wants = []piece{{0, size, bytesOf(before)}}
		o.queue = func(send, recv device.Ptr) error {
			return b.Comm.Exchange(b.stream, parallel.Send(send, size, next), parallel.Recv(recv, size, before))
		}
	case AllToAll:
		for k := range n {
			o.wants = append(o.wants, piece{int64(k) * share, share, bytesOf(k).from(begins)})
		}
		o.queue = func(send, recv device.Ptr) error {
			transfers := make([]parallel.Transfer, 0, 2*n)
			for k := range n {
				at := int64(k) * share
				transfers = append(transfers, parallel.Recv(recv.Add(at), share, k), parallel.Send(send.Add(at), share, k))
			}
			return b.Comm.Exchange(b.stream, transfers...)
		}
	}
	return o
}

// sizes are those that an operation is measured at.
func (b *bench) sizes(operation string) (list []int64) {
	unit := int64(b.Type.Size())
	if shares(operation) {
		unit *= int64(b.Comm.Size())
	}
	for _, n := range Sizes(b.Min, b.Max, b.Factor) {
		list = append(list, (n+unit-1)/unit*unit)
	}
	return slices.Compact(list)
}

// Sizes are those from least to most, which is one of them, by a factor of 2 or more.
func Sizes(least, most int64, factor int) (list []int64) {
	for n := least; n < most; n *= int64(factor) {
		list = append(list, n)
		if n > most/int64(factor) {
			break
		}
	}
	return append(list, most)
}
