// Package conformance checks that communicators keep the contract of [parallel.Comm].
// Its cases are programs that every rank runs at the same time, be the ranks goroutines
// or processes:
//
//	for _, c := range conformance.Cases {
//		err := c.Run(comm)
//	}
package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
)

// Case is one program.
type Case struct {
	Name string
	run  func(*rank)
}

// Cases are all of them. Each leaves the communicator as it was.
var Cases = []Case{
	{"identity", testIdentity},
	{"all-reduce", testAllReduce},
	{"all-reduce-types", testAllReduceTypes},
	{"parts", testParts},
	{"all-reduce-same-bits", testSameBits},
	{"reduce-scatter", testReduceScatter},
	{"all-gather", testAllGather},
	{"broadcast", testBroadcast},
	{"exchange-ring", testRing},
	{"exchange-all-to-all", testAllToAll},
	{"exchange-order", testExchangeOrder},
	{"exchange-itself", testItself},
	{"stream-order", testStreamOrder},
	{"two-streams", testTwoStreams},
	{"barrier", testBarrier},
	{"split", testSplit},
	{"random", testRandom},
	{"arguments", testArguments},
	{"abort", testAbort},
	{"barrier-context", testBarrierContext},
	{"closed", testClosed},
}

// Run runs the case as the rank of c, and reports what is wrong there.
func (k Case) Run(c parallel.Comm) (err error) {
	r := &rank{Comm: c}
	defer func() {
		for i := len(r.cleanups) - 1; i >= 0; i-- {
			err = errors.Join(err, r.cleanups[i]())
		}
		if err != nil {
			err = fmt.Errorf("%s: rank %d of %d: %w", k.Name, c.Rank(), c.Size(), err)
		}
	}()
	defer func() {
		if p := recover(); p != nil {
			failed, ok := p.(failure)
			if !ok {
				panic(p)
			}
			err = failed.error
		}
	}()
	r.s = r.stream()
	k.run(r)
	return nil
}

// Run runs all cases in groups that open makes, whose ranks are in this process.
func Run(t *testing.T, open func(t testing.TB, size int) []parallel.Comm) {
	for _, size := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			for _, k := range Cases {
				t.Run(k.Name, func(t *testing.T) {
					comms := open(t, size)
					if err := each(comms, k.Run); err != nil {
						t.Fatal(err)
					}
					if err := each(comms, parallel.Comm.Close); err != nil {
						t.Fatal(err)
					}
				})
			}
		})
	}
}

// each calls fn for all ranks at the same time.
func each(comms []parallel.Comm, fn func(parallel.Comm) error) error {
	var all errgroup.Group
	for _, c := range comms {
		all.Go(func() error { return fn(c) })
	}
	return all.Wait()
}

// rank is a rank that runs a case.
type rank struct {
	parallel.Comm
	s        device.Stream
	cleanups []func() error
}

type failure struct{ error }

// ok ends the case unless err is nil.
func (r *rank) ok(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func (r *rank) fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// want ends the case unless err is of all targets.
func (r *rank) want(what string, err error, targets ...error) {
	for _, target := range targets {
		if !errors.Is(err, target) {
			r.fail("%s: %v, want %v", what, err, target)
		}
	}
}

func (r *rank) stream() device.Stream {
	s, err := r.Device().NewStream()
	r.ok(err)
	r.cleanups = append(r.cleanups, s.Close)
	return s
}

// memory is device memory with content.
func (r *rank) memory(content []byte) device.Ptr {
	p, err := r.Device().Alloc(int64(max(len(content), 1)))
	r.ok(err)
	r.cleanups = append(r.cleanups, func() error { return r.Device().Free(p) })
	if len(content) > 0 {
		r.ok(r.s.CopyH2D(p, content))
		r.ok(r.s.Synchronize())
	}
	return p
}

// content is what memory holds when the stream is done.
func (r *rank) content(p device.Ptr, n int) []byte {
	b := make([]byte, n)
	r.ok(r.s.CopyD2H(b, p))
	r.ok(r.s.Synchronize())
	return b
}

// twin is a group of the same ranks, which a case may break.
func (r *rank) twin() parallel.Comm {
	c, err := r.Split(context.Background(), 0, r.Rank())
	r.ok(err)
	return c
}

// values are the n elements of type t that a rank has in a case: whole numbers, so small
// that sums and products of up to six ranks are exact in each type.
func values(t dtype.DType, n int, seed uint64, rank int) []byte {
	random := rand.New(rand.NewPCG(seed, uint64(rank)))
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(1 + random.IntN(2))
	}
	return encode(t, x)
}
