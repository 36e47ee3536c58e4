package conformance

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// testRandomOperations does hundreds of operations on several streams and
// compares with a model that does them one after another. Each buffer has an
// event; whoever uses the buffer waits for it and records it again, in
// whichever stream. So the result is determined if, and only if, streams and
// events order work as they promise.
func testRandomOperations(f *fixture.F) {
	for seed := range uint64(3) {
		f.Run(fmt.Sprint(seed), func(t *testing.T) {
			sub := *f
			sub.T = t
			newRandomTest(&sub, seed).run(400)
		})
	}
}

type randomTest struct {
	*fixture.F
	*rand.Rand
	source  []byte // never written: any part may be on its way to the device
	streams []device.Stream
	buffers []*modelBuffer
	reads   []*modelRead
	log     []string
}

// modelBuffer is device memory with what it should hold.
type modelBuffer struct {
	p       device.Ptr
	want    []byte
	settled device.Event // all work on the buffer so far
}

// modelRead is a queued copy to the host with what it should bring.
type modelRead struct {
	got, want []byte
	buffer    *modelBuffer
	stream    device.Stream
}

func newRandomTest(f *fixture.F, seed uint64) *randomTest {
	r := &randomTest{F: f, Rand: rand.New(rand.NewPCG(seed, 1)), source: fixture.Unique(1<<18, byte(seed))}
	for range 4 {
		r.streams = append(r.streams, f.Stream())
	}
	for range 5 {
		b := &modelBuffer{settled: f.Event(device.EventNoTiming)}
		r.buffers = append(r.buffers, b)
		r.renew(b)
	}
	return r
}

// renew gives b new memory, of which the content is known only when it is set.
func (r *randomTest) renew(b *modelBuffer) {
	b.want = make([]byte, 1+r.IntN(1<<16))
	b.p = r.Alloc(int64(len(b.want)))
	r.use(r.Stream(), func(s device.Stream) error { return s.Memset(b.p, 0, int64(len(b.want))) }, b)
}

// part chooses a range of a buffer of n bytes, empty ones included.
func (r *randomTest) part(n int) (from, to int) {
	from = r.IntN(n + 1)
	return from, from + r.IntN(n+1-from)
}

// use runs an operation on s, ordered with all others on its buffers.
func (r *randomTest) use(s device.Stream, queue func(device.Stream) error, buffers ...*modelBuffer) {
	for _, b := range buffers {
		r.OK(s.Wait(b.settled))
	}
	r.OK(queue(s))
	for _, b := range buffers {
		r.OK(s.Record(b.settled))
	}
}

func (r *randomTest) run(steps int) {
	defer func() {
		if r.Failed() {
			r.Logf("the last operations: %q", r.log[max(0, len(r.log)-20):])
		}
	}()
	for range steps {
		r.step()
	}
	r.OK(r.Dev.Synchronize())
	for _, b := range r.buffers {
		if !bytes.Equal(r.Download(b.p, int64(len(b.want))), b.want) {
			r.Fatalf("buffer of %d bytes at %#x has the wrong content in the end", len(b.want), b.p)
		}
	}
	r.check(func(*modelRead) bool { return true })
	for _, b := range r.buffers {
		r.OK(r.Dev.Free(b.p))
	}
}

func (r *randomTest) step() {
	b, s := r.buffers[r.IntN(len(r.buffers))], r.Stream()
	from, to := r.part(len(b.want))
	p, n := b.p.Add(int64(from)), to-from
	name := "nothing"
	switch k := r.IntN(100); {
	case k < 25:
		name = "H2D"
		at := r.IntN(len(r.source) - n)
		src := r.source[at : at+n]
		r.use(s, func(s device.Stream) error { return s.CopyH2D(p, src) }, b)
		copy(b.want[from:to], src)
	case k < 50:
		name = "D2H"
		read := &modelRead{got: make([]byte, n), want: bytes.Clone(b.want[from:to]), buffer: b, stream: s}
		r.use(s, func(s device.Stream) error { return s.CopyD2H(read.got, p) }, b)
		r.reads = append(r.reads, read)
	case k < 70:
		name = "D2D"
		other := r.buffers[r.IntN(len(r.buffers))]
		if other == b {
			return // the ranges might overlap
		}
		n = min(n, len(other.want))
		at := r.IntN(len(other.want) - n + 1)
		dst := other.p.Add(int64(at))
		r.use(s, func(s device.Stream) error { return s.CopyD2D(dst, p, int64(n)) }, b, other)
		copy(other.want[at:at+n], b.want[from:])
	case k < 80:
		name = "memset"
		value := byte(r.Uint32())
		r.use(s, func(s device.Stream) error { return s.Memset(p, value, int64(n)) }, b)
		copy(b.want[from:to], bytes.Repeat([]byte{value}, n))
	case k < 88:
		caller, ok := device.As[device.Caller](r.Dev)
		if !ok {
			return
		}
		name = "call"
		value := byte(r.Uint32())
		r.use(s, func(s device.Stream) error {
			return caller.Call(s, func() error {
				mem, err := caller.Bytes(p, int64(n))
				add(mem, value)
				return err
			})
		}, b)
		add(b.want[from:to], value)
	case k < 92:
		name = "synchronise stream"
		r.OK(s.Synchronize())
		r.check(func(read *modelRead) bool { return read.stream == s })
	case k < 96:
		name = "synchronise event"
		r.OK(b.settled.Synchronize())
		r.check(func(read *modelRead) bool { return read.buffer == b })
	case k < 97:
		name = "synchronise device"
		r.OK(r.Dev.Synchronize())
		r.check(func(*modelRead) bool { return true })
	default:
		name = "free and allocate"
		r.OK(r.Dev.Free(b.p)) // waits for the work by itself
		r.renew(b)
	}
	r.log = append(r.log, fmt.Sprintf("%s %#x+%d", name, p, n))
}

// check compares the reads that are done, and forgets them.
func (r *randomTest) check(done func(*modelRead) bool) {
	r.Helper()
	var left []*modelRead
	for _, read := range r.reads {
		if !done(read) {
			left = append(left, read)
		} else if !bytes.Equal(read.got, read.want) {
			r.Fatalf("a read of %d bytes at %#x brought the wrong content", len(read.want), read.buffer.p)
		}
	}
	r.reads = left
}

func add(b []byte, value byte) {
	for i := range b {
		b[i] += value
	}
}
