package conformance

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// batcher returns the device as a [device.BatchCopier], or skips the test.
func batcher(f *fixture.F) device.BatchCopier {
	f.Helper()
	c, ok := device.As[device.BatchCopier](f.Dev)
	if !ok {
		f.Skip("the device takes no batches of copies")
	}
	if !c.CanCopyBatch() {
		p := f.Alloc(64)
		f.Fails("CopyBatch on a device that cannot",
			c.CopyBatch(f.Stream(), []device.Span{{Dst: p, Src: p.Add(32), Bytes: 32}}), device.ErrNotSupported)
		f.Skip("the device's driver takes no batches of copies")
	}
	return c
}

// place is memory that copies by address may use, and how to see it from the
// host.
type place struct {
	name string
	p    device.Ptr
	set  func([]byte)
	get  func() []byte
}

// places returns device memory of n bytes and, where the device has it, mapped
// pinned memory.
func places(f *fixture.F, n int64) []place {
	f.Helper()
	p := f.Alloc(n)
	list := []place{{
		"device", p,
		func(b []byte) { f.Upload(p, b) },
		func() []byte { return f.Download(p, n) },
	}}
	pinner, ok := device.As[device.Pinner](f.Dev)
	if !ok || !pinner.CanMap() {
		return list
	}
	b := f.Pages(n)
	if pinner.Pin(b, device.PinMapped) != nil {
		return list
	}
	mapped, err := pinner.Mapped(b)
	f.OK(err)
	return append(list, place{
		"pinned", mapped,
		func(want []byte) { copy(b, want) },
		func() []byte { return bytes.Clone(b[:n]) },
	})
}

// eachWay runs test for every pair of places of n bytes.
func eachWay(f *fixture.F, n int64, test func(what string, dst, src place)) {
	f.Helper()
	for _, src := range places(f, n) {
		for _, dst := range places(f, n) {
			test(src.name+" to "+dst.name, dst, src)
		}
	}
}

// A batch copies all its pieces and nothing else, however many and wherever
// they lie.
func testBatch(f *fixture.F) {
	c := batcher(f)
	const n = 1 << 18
	rng := rand.New(rand.NewPCG(1, 3))
	source := fixture.Unique(n, 1)
	s := f.Stream()
	eachWay(f, n, func(what string, dst, src place) {
		src.set(source)
		for _, count := range []int{1, 2, 3, 17, 1000} {
			want := bytes.Repeat([]byte{guardValue}, n)
			dst.set(want)
			spans := make([]device.Span, count)
			for i, at := range rng.Perm(count) { // a slot of the destination for each
				slot := n / int64(count)
				length := 1 + rng.Int64N(slot)
				to, from := int64(at)*slot+rng.Int64N(slot-length+1), rng.Int64N(n-length+1)
				spans[i] = device.Span{Dst: dst.p.Add(to), Src: src.p.Add(from), Bytes: length}
				copy(want[to:to+length], source[from:])
			}
			f.OK(c.CopyBatch(s, spans))
			clear(spans) // the caller may use it again at once
			f.Within("a batch", s.Synchronize)
			if !bytes.Equal(dst.get(), want) {
				f.Fatalf("%s: %d copies brought the wrong content", what, count)
			}
		}
		if !bytes.Equal(src.get(), source) {
			f.Fatalf("%s: the source changed", what)
		}
	})
}

// Batches stand in the order of their stream.
func testBatchOrder(f *fixture.F) {
	c := batcher(f)
	const count, each = 64, 1000
	const n = count * each
	a, b, p := f.Alloc(n), f.Alloc(n), f.Alloc(n)
	s := f.Stream()
	want := fixture.Unique(n, 1)
	got := make([]byte, n)
	swap := func(dst, src device.Ptr) []device.Span { // the pieces in reverse
		spans := make([]device.Span, count)
		for i := range int64(count) {
			spans[i] = device.Span{Dst: dst.Add(i * each), Src: src.Add((count - 1 - i) * each), Bytes: each}
		}
		return spans
	}
	for range 4 {
		f.OK(s.Memset(a, 0, n))
		f.OK(s.CopyH2D(a, want))
		f.OK(c.CopyBatch(s, swap(b, a)))
		f.OK(s.Memset(a, 1, n))
		f.OK(c.CopyBatch(s, swap(p, b)))
		f.OK(s.Memset(b, 2, n))
		f.OK(s.CopyD2H(got, p))
		f.OK(s.Memset(p, 3, n))
		f.OK(s.Synchronize())
		if !bytes.Equal(got, want) {
			f.Fatal("a batch did not run in the order of its stream")
		}
	}
}

// Batches may be queued by many at a time.
func testBatchGoroutines(f *fixture.F) {
	c := batcher(f)
	var done []<-chan error
	for i := range 4 {
		const n = 1 << 14
		s, p, q := f.Stream(), f.Alloc(n), f.Alloc(n)
		want := fixture.Unique(n, byte(i))
		done = append(done, fixture.Async(func() error {
			for round := range 20 {
				// One piece fewer each round, and the first takes the rest.
				first := int64(1 + 16*round)
				spans := []device.Span{{Dst: q, Src: p, Bytes: first}}
				for at := first; at < n; at += 64 {
					spans = append(spans, device.Span{Dst: q.Add(at), Src: p.Add(at), Bytes: min(64, n-at)})
				}
				got := make([]byte, n)
				for _, err := range []error{
					s.CopyH2D(p, want), s.Memset(q, 0, n), c.CopyBatch(s, spans), s.CopyD2H(got, q), s.Synchronize(),
				} {
					if err != nil {
						return err
					}
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("a batch of %d copies among others brought the wrong content", len(spans))
				}
			}
			return nil
		}))
	}
	for _, d := range done {
		f.Arrives("a goroutine among those that queue batches", d)
	}
}

func testBatchArguments(f *fixture.F) {
	c := batcher(f)
	const n = 1 << 10
	s := f.Stream()
	p, q := f.Alloc(n), f.Alloc(n)
	f.Upload(q, fixture.Unique(n, 1))
	good := device.Span{Dst: q, Src: p, Bytes: 16}

	f.OK(c.CopyBatch(s, nil))
	f.OK(c.CopyBatch(s, []device.Span{}))
	for _, bad := range []struct {
		what string
		span device.Span
		want error
	}{
		{"no bytes", device.Span{Dst: q, Src: p, Bytes: 0}, device.ErrArgument},
		{"less than nothing", device.Span{Dst: q, Src: p, Bytes: -1}, device.ErrArgument},
		{"the least number of bytes", device.Span{Dst: q, Src: p, Bytes: math.MinInt64}, device.ErrArgument},
		{"a destination over the end of all addresses", device.Span{Dst: math.MaxUint64 - 7, Src: p, Bytes: 9}, device.ErrPointer},
		{"a source over the end of all addresses", device.Span{Dst: q, Src: math.MaxUint64 - 7, Bytes: 9}, device.ErrPointer},
	} {
		err := c.CopyBatch(s, []device.Span{good, good, bad.span})
		f.Fails("CopyBatch with "+bad.what, err, bad.want)
		if err != nil && !strings.Contains(err.Error(), "copy 2 of a batch of 3") {
			f.Errorf("CopyBatch with %s: %q does not say which", bad.what, err)
		}
	}
	f.Fails("CopyBatch to address zero", c.CopyBatch(s, []device.Span{{Dst: 0, Src: p, Bytes: 16}}), device.ErrPointer)
	f.Fails("CopyBatch from address zero", c.CopyBatch(s, []device.Span{{Dst: q, Src: 0, Bytes: 16}}), device.ErrPointer)
	f.OK(s.Synchronize())
	if !bytes.Equal(f.Download(q, n), fixture.Unique(n, 1)) {
		f.Error("a batch that failed changed something")
	}

	spans := []device.Span{good}
	f.Fails("CopyBatch on no stream", c.CopyBatch(nil, spans), device.ErrArgument)
	other, err := f.Open().NewStream()
	f.OK(err)
	f.Fails("CopyBatch on a stream of another device", c.CopyBatch(other, spans), device.ErrArgument)
	f.OK(s.Close())
	f.Fails("CopyBatch on a closed stream", c.CopyBatch(s, spans), device.ErrClosed)
	f.Fails("CopyBatch of nothing on a closed stream", c.CopyBatch(s, nil), device.ErrClosed)
}
