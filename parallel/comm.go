package parallel

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Comm is one rank's end of a group of ranks, each with a device. All ranks of a group
// make the same calls in the same order, whatever streams they name: an operation begins
// when all of its ranks have come to it, and those of a communicator run one after the
// other, in the order of the calls.
//
// Operations are queued, like copies: their memory must neither change nor be read by
// others until they are done, and what goes wrong later is an error of the stream, or, on
// GPUs, of the next call. The first one may wait for all ranks to call it. All methods are
// safe for concurrent use, but calls that race have no order that other ranks could share.
//
// Numbers of bytes and elements are the same on all ranks; zero does nothing. Memory of
// reductions is aligned to their elements.
type Comm interface {
	// Rank is this rank, from 0 on.
	Rank() int
	// Size is the number of ranks.
	Size() int
	// Device is where the memory of this rank is.
	Device() device.Device

	// AllReduce queues Recv[i] = op over all ranks' Send[i] for each part, whose
	// elements are of type t ([Reduces]). Several parts are one operation. Recv may
	// be Send, and must not overlap it otherwise. All ranks get the same bits.
	AllReduce(s device.Stream, t dtype.DType, op Op, parts ...Part) error

	// ReduceScatter queues the same, of which each rank gets its share: Send has N
	// elements for each rank, in their order, Recv has N. Recv may be this rank's
	// share of Send, and must not overlap it otherwise.
	ReduceScatter(s device.Stream, t dtype.DType, op Op, parts ...Part) error

	// AllGather queues copies of the Send bytes of all ranks, N each, into Recv, in
	// the order of the ranks. Send may be this rank's share of Recv, and must not
	// overlap it otherwise.
	AllGather(s device.Stream, parts ...Part) error

	// Broadcast queues a copy of the bytes at p of rank root to p of all others.
	Broadcast(s device.Stream, p device.Ptr, bytes int64, root int) error

	// Exchange queues transfers between pairs of ranks, which go on at the same
	// time. Each [Send] needs a [Recv] of the same size in an Exchange of the other
	// rank; between two ranks, they meet in their order. Ranks that have none need
	// not call it.
	Exchange(s device.Stream, transfers ...Transfer) error

	// Barrier waits until all ranks have called it and are done with what they queued
	// before. When ctx ends first, the communicator is aborted.
	Barrier(ctx context.Context) error

	// Split divides the group: ranks of one color are a group of their own, ordered
	// by key, then by rank. A rank with a color below 0 gets nil. All ranks call it,
	// as in Barrier. A group that was split lives on.
	Split(ctx context.Context, color, key int) (Comm, error)

	// Abort ends whatever is queued, or called, and waits for other ranks, with an
	// error that has reason and [ErrAborted] in it; all calls that follow fail with
	// it. On a GPU, work that was queued ends without an error, and what it was to
	// write is undefined. Other ranks are not told. The first reason stays.
	Abort(reason error)

	// Close waits for what is queued, and ends this rank's part. All ranks call it.
	// After Abort it waits for nobody. A second Close does nothing.
	Close() error
}

// Op is how values are combined.
type Op uint8

// The operations. Avg is the sum divided by the number of ranks, of floating-point
// types alone. Sums of 16-bit types are rounded once, or more often where the library
// does so.
const (
	Sum Op = iota
	Prod
	Min
	Max
	Avg
)

var opNames = [...]string{Sum: "sum", Prod: "prod", Min: "min", Max: "max", Avg: "avg"}

// String returns the name: "sum".
func (o Op) String() string {
	if int(o) >= len(opNames) {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return opNames[o]
}

// Reduces reports whether values of type t can be combined by op: those of f16, bf16,
// f32, f64 and of whole numbers of 8, 32 and 64 bits, which have no average.
func Reduces(t dtype.DType, op Op) bool {
	switch t {
	case dtype.F16, dtype.BF16, dtype.F32, dtype.F64:
		return op <= Avg
	case dtype.I8, dtype.U8, dtype.I32, dtype.U32, dtype.I64, dtype.U64:
		return op <= Max
	}
	return false
}

// Part is what an operation reads and writes. N counts elements, or bytes, as the
// operation says.
type Part struct {
	Recv, Send device.Ptr
	N          int64
}

// Transfer is one side of a transfer between two ranks: see [Send] and [Recv].
type Transfer struct {
	Ptr   device.Ptr
	Bytes int64
	Peer  int
	Out   bool // from here to the peer
}

// Send is a transfer of the bytes at p to another rank.
func Send(p device.Ptr, bytes int64, to int) Transfer { return Transfer{p, bytes, to, true} }

// Recv is a transfer from another rank to p.
func Recv(p device.Ptr, bytes int64, from int) Transfer { return Transfer{p, bytes, from, false} }
