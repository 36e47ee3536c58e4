package mpi

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/parallel/internal/hosted"
)

// engine is one rank of a communicator of MPI's.
//
// An operation of MPI cannot be taken back: once started, MPI may read and write its
// memory until other ranks have done their part. So all operations go through memory of
// the engine's own, in pieces. Whoever waits for one may then leave at any time (Abort),
// and the piece is kept until MPI is done with it, if ever.
type engine struct {
	loop       *loop
	comm       uintptr // MPI_Comm
	rank, size int

	pieceBytes int
	buffers    sync.Pool // of *[]byte of pieceBytes

	// Numbers of the transfers to and from each rank, which are their tags: what is
	// left of one that failed is never taken for another.
	sent, received []uint16

	aborted chan struct{} // closed by Abort, after reason is set
	reason  error
}

const (
	leastPieceBytes = 1 << 20
	leastPartBytes  = 16 << 10 // of a rank, in a piece that has a part for each
	smallBytes      = 32 << 10 // cheaper to allocate than to keep
	depth           = 4        // pieces that are under way at the same time
	transferPieces  = 64       // of all transfers together
	tags            = 1 << 15  // that every MPI has
)

func newEngine(l *loop, comm uintptr, rank, size int) *engine {
	return &engine{loop: l, comm: comm, rank: rank, size: size,
		pieceBytes: max(leastPieceBytes, (size+1)*leastPartBytes),
		sent:       make([]uint16, size), received: make([]uint16, size), aborted: make(chan struct{})}
}

func (e *engine) Rank() int { return e.rank }
func (e *engine) Size() int { return e.size }

// Run implements [hosted.Engine].
func (e *engine) Run(list []hosted.Op) error {
	if k := list[0].Kind; k != hosted.In && k != hosted.Out {
		var flows []flow
		for _, op := range list {
			flows = append(flows, e.collective(op))
		}
		return e.move(depth, flows...)
	}
	var all errgroup.Group
	for _, op := range list {
		f := e.transfer(op)
		all.Go(func() error { return e.move(min(depth, max(1, transferPieces/len(list))), f) })
	}
	return all.Wait()
}

// flow is an operation on n units (elements or bytes), in pieces of some of them.
type flow struct {
	n         int
	unitBytes int // of memory for a unit of a piece
	piece     int // units

	start  func(b []byte, at, n int) *request // of units at to at+n
	finish func(b []byte, at, n int)
}

// move does operations in their order, with some pieces under way at the same time.
func (e *engine) move(depth int, flows ...flow) error {
	type piece struct {
		*request
		finish func(b []byte, at, n int)
		b      []byte
		at, n  int
	}
	var underWay []piece
	for at := 0; len(flows) > 0 || len(underWay) > 0; {
		if len(flows) > 0 && len(underWay) < depth {
			f := flows[0]
			n := min(f.piece, f.n-at)
			b := e.buffer(n * f.unitBytes)
			underWay = append(underWay, piece{f.start(b, at, n), f.finish, b, at, n})
			if at += n; at == f.n {
				flows, at = flows[1:], 0
			}
			continue
		}
		p := underWay[0]
		underWay = underWay[1:]
		if err := e.wait(p.request); err != nil {
			return err
		}
		p.finish(p.b, p.at, p.n)
		e.release(p.b)
	}
	return nil
}

func (e *engine) buffer(n int) []byte {
	if n <= smallBytes {
		return make([]byte, n)
	}
	if b, ok := e.buffers.Get().(*[]byte); ok {
		return (*b)[:n]
	}
	return make([]byte, n, e.pieceBytes)
}

func (e *engine) release(b []byte) {
	if cap(b) == e.pieceBytes {
		e.buffers.Put(&b)
	}
}

// wait waits for the end of a request, or for Abort.
func (e *engine) wait(r *request) error {
	select {
	case <-e.aborted:
		return e.reason
	case <-r.done:
		return r.err
	case <-e.loop.ended:
		return errEnded
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// collective is the flow of an operation of all ranks.
func (e *engine) collective(op hosted.Op) flow {
	lib := e.loop.lib
	switch op.Kind {
	case hosted.AllReduce:
		c := converter(op.Type, op.Op, e.size)
		return flow{n: len(op.Send) / c.bytes, unitBytes: c.wideBytes, piece: e.pieceBytes / c.wideBytes,
			start: func(b []byte, at, n int) *request {
				c.widen(b, op.Send[at*c.bytes:][:n*c.bytes])
				return e.start("MPI_Iallreduce", b, func(r *request) uintptr {
					return lib.iallreduce.Call(lib.inPlace, address(b), integer(n),
						lib.handle(c.mpiType), lib.handle(ops[op.Op]), e.comm, uintptr(unsafe.Pointer(&r.handle)))
				})
			},
			finish: func(b []byte, at, n int) { c.narrow(op.Recv[at*c.bytes:][:n*c.bytes], b) },
		}
	case hosted.ReduceScatter:
		c := converter(op.Type, op.Op, e.size)
		all := len(op.Recv)
		unit := c.wideBytes * (e.size + 1) // what each rank gets, and the result
		return flow{n: all / c.bytes, unitBytes: unit, piece: e.pieceBytes / unit,
			start: func(b []byte, at, n int) *request {
				part := n * c.wideBytes
				for k := range e.size {
					c.widen(b[k*part:][:part], op.Send[k*all+at*c.bytes:][:n*c.bytes])
				}
				return e.start("MPI_Ireduce_scatter_block", b, func(r *request) uintptr {
					return lib.ireduceScatter.Call(address(b), address(b[e.size*part:]), integer(n),
						lib.handle(c.mpiType), lib.handle(ops[op.Op]), e.comm, uintptr(unsafe.Pointer(&r.handle)))
				})
			},
			finish: func(b []byte, at, n int) {
				c.narrow(op.Recv[at*c.bytes:][:n*c.bytes], b[e.size*n*c.wideBytes:])
			},
		}
	case hosted.AllGather:
		all := len(op.Send)
		return flow{n: all, unitBytes: e.size, piece: e.pieceBytes / e.size,
			start: func(b []byte, at, n int) *request {
				copy(b[e.rank*n:][:n], op.Send[at:])
				return e.gather(b)
			},
			finish: func(b []byte, at, n int) {
				for k := range e.size {
					copy(op.Recv[k*all+at:][:n], b[k*n:])
				}
			},
		}
	default: // Broadcast
		return flow{n: len(op.Recv), unitBytes: 1, piece: e.pieceBytes,
			start: func(b []byte, at, n int) *request {
				if e.rank == op.Peer {
					copy(b, op.Recv[at:])
				}
				return e.start("MPI_Ibcast", b, func(r *request) uintptr {
					return lib.ibcast.Call(address(b), integer(n), lib.handle(typeByte), integer(op.Peer), e.comm, uintptr(unsafe.Pointer(&r.handle)))
				})
			},
			finish: func(b []byte, at, n int) {
				if e.rank != op.Peer {
					copy(op.Recv[at:], b)
				}
			},
		}
	}
}

// gather starts an all-gather in b, which has a part for each rank.
func (e *engine) gather(b []byte) *request {
	lib := e.loop.lib
	return e.start("MPI_Iallgather", b, func(r *request) uintptr {
		return lib.iallgather.Call(lib.inPlace, 0, lib.handle(typeByte),
			address(b), integer(len(b)/e.size), lib.handle(typeByte), e.comm, uintptr(unsafe.Pointer(&r.handle)))
	})
}

// transfer is the flow of one side of a transfer, which takes the next number.
func (e *engine) transfer(op hosted.Op) flow {
	lib := e.loop.lib
	call, fn, number, memory := "MPI_Isend", lib.isend, &e.sent[op.Peer], op.Send
	if op.Kind == hosted.In {
		call, fn, number, memory = "MPI_Irecv", lib.irecv, &e.received[op.Peer], op.Recv
	}
	tag := int(*number)
	*number = (*number + 1) % tags
	return flow{n: len(memory), unitBytes: 1, piece: leastPieceBytes,
		start: func(b []byte, at, n int) *request {
			if op.Kind == hosted.Out {
				copy(b, memory[at:])
			}
			return e.start(call, b, func(r *request) uintptr {
				return fn.Call(address(b), integer(n), lib.handle(typeByte), integer(op.Peer), integer(tag), e.comm, uintptr(unsafe.Pointer(&r.handle)))
			})
		},
		finish: func(b []byte, at, n int) {
			if op.Kind == hosted.In {
				copy(memory[at:], b)
			}
		},
	}
}

// Barrier implements [hosted.Engine].
func (e *engine) Barrier() error { return e.wait(e.barrier()) }

func (e *engine) barrier() *request {
	return e.start("MPI_Ibarrier", nil, func(r *request) uintptr {
		return e.loop.lib.ibarrier.Call(e.comm, uintptr(unsafe.Pointer(&r.handle)))
	})
}

// Abort implements [hosted.Engine]. MPI has no way to end an operation for all ranks:
// here its memory is kept, and ranks that have begun it wait until they abort, too.
func (e *engine) Abort(reason error) {
	e.reason = reason
	close(e.aborted)
}

// Close implements [hosted.Engine].
func (e *engine) Close() error {
	select {
	case <-e.aborted: // MPI may still use it
		return closed(nil)
	default:
		return errors.Join(e.free(), closed(e))
	}
}

func (e *engine) free() error {
	return e.loop.call(func() error {
		return e.loop.lib.check("MPI_Comm_free", e.loop.lib.commFree.Call(uintptr(unsafe.Pointer(&e.comm))))
	})
}
