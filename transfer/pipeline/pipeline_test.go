package pipeline_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// needsCaller skips the test where kernels are no Go functions.
func (f *fixture) needsCaller() {
	f.Helper()
	if _, ok := device.As[device.Caller](f.Dev.Device); !ok {
		f.Skip("the device does not call Go functions")
	}
}

// call queues fn on a device that needsCaller has let pass.
func (f *fixture) call(s device.Stream, fn func() error) error {
	return devicetest.As[device.Caller](f, f.Dev.Device).Call(s, fn)
}

// dawdle holds s up for a moment where that can be done.
func (f *fixture) dawdle(s device.Stream, d time.Duration) error {
	caller, ok := device.As[device.Caller](f.Dev.Device)
	if !ok {
		return nil
	}
	return caller.Call(s, func() error {
		time.Sleep(d)
		return nil
	})
}

// mark is a computation that every device can do: a chunk of Out is the chunk
// of In as far as there is room, then zeros, and its first byte is the index.
func mark(s device.Stream, c pipeline.Chunk) error {
	if c.Out != c.In {
		if err := s.Memset(c.Out, 0, c.OutBytes); err != nil {
			return err
		}
		if err := s.CopyD2D(c.Out, c.In, min(c.InBytes, c.OutBytes)); err != nil {
			return err
		}
	}
	return s.Memset(c.Out, byte(c.Index), 1)
}

// marked is what mark makes of in.
func marked(in []byte, itemBytes, outItemBytes, chunkBytes int64) []byte {
	var out []byte
	for index := 0; len(in) > 0; index++ {
		chunk := in[:min(chunkBytes, int64(len(in)))]
		in = in[len(chunk):]
		result := make([]byte, int64(len(chunk))/itemBytes*outItemBytes)
		copy(result, chunk)
		result[0] = byte(index)
		out = append(out, result...)
	}
	return out
}

// run runs p and checks that it gives back all that it takes.
func (f *fixture) run(ctx context.Context, e *transfer.Engine, p pipeline.Pipeline) (pipeline.Report, error) {
	f.Helper()
	f.OK(e.H2D(context.Background(), 0, nil)) // the engine's own stream
	free, opened := f.free(), f.Dev.Opened.Load()
	var report pipeline.Report
	err := f.Within("Run", func() (err error) {
		report, err = pipeline.Run(ctx, e, p)
		return err
	})
	f.gaveBack(free, opened)
	return report, err
}

func (f *fixture) free() int64 {
	f.Helper()
	m, err := f.Dev.Memory()
	f.OK(err)
	return m.FreeBytes
}

// gaveBack checks the memory where nobody else allocates, and that no stream
// and event of the run is left; what engines keep are a few lanes.
func (f *fixture) gaveBack(free, opened int64) {
	f.Helper()
	if _, ok := device.As[device.Caller](f.Dev.Device); ok && f.free() != free {
		f.Errorf("%d bytes of device memory are free, before the run %d were", f.free(), free)
	}
	const kept = 2*3 + 3*3 // two lanes, and the copiers of small, of 3 each
	if now := f.Dev.Opened.Load(); now > opened+kept {
		f.Errorf("%d streams and events are open, before the run %d were", now, opened)
	}
}

func TestPipelineRandom(t *testing.T) {
	const most = 200_000
	f := open(t)
	e := f.Engine(small)
	pinnedIn, pinnedOut := f.PinnedMemory(most), f.PinnedMemory(3*most)
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 7))
		itemBytes := 1 + rng.Int64N(int64(1)<<rng.IntN(12))
		items := rng.Int64N(min(most/itemBytes, int64(1)<<rng.IntN(18)) + 1)
		p := pipeline.Pipeline{ItemBytes: itemBytes, Buffers: rng.IntN(5)}
		if rng.IntN(8) > 0 && items > 0 {
			p.ChunkBytes = itemBytes * (1 + max(rng.Int64N(items), items/60))
		}
		in := make([]byte, items*itemBytes)
		if rng.IntN(2) == 0 {
			in = pinnedIn[:len(in)]
		}
		rand.NewChaCha8([32]byte{byte(seed)}).Read(in)

		outItem, sameMemory := itemBytes, false
		switch rng.IntN(4) {
		case 0:
			p.InPlace = true
			sameMemory = rng.IntN(2) == 0
		case 1:
			sameMemory = true
		case 2:
			outItem = 1 + rng.Int64N(3*itemBytes)
			p.OutItemBytes = outItem
		}
		out := make([]byte, items*outItem)
		if rng.IntN(2) == 0 {
			out = pinnedOut[:len(out)]
		}
		if sameMemory {
			out = in
		}
		p.In, p.Out = pipeline.Bytes(in), pipeline.Bytes(out)

		var last, chunks int64
		p.Compute = func(s device.Stream, c pipeline.Chunk) error {
			if c.In%256 != 0 || c.Out%256 != 0 || p.InPlace != (c.In == c.Out) {
				return fmt.Errorf("buffers at %#x and %#x", c.In, c.Out)
			}
			chunks++
			if chunks%3 == 0 {
				if err := f.dawdle(s, time.Duration(seed)*time.Microsecond); err != nil {
					return err
				}
			}
			return mark(s, c)
		}
		p.Progress = func(done, total int64) {
			if done <= last || done > total || total != int64(len(in)) {
				t.Errorf("progress %d of %d, after %d", done, total, last)
			}
			last = done
		}
		original := bytes.Clone(in)
		what := fmt.Sprintf("seed %d: %d items of %d -> %d bytes, chunks of %d, %d buffers, in place %t, one memory %t",
			seed, items, itemBytes, outItem, p.ChunkBytes, p.Buffers, p.InPlace, sameMemory)

		report, err := f.run(ctx, e, p)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !bytes.Equal(out, marked(original, itemBytes, outItem, max(report.ChunkBytes, 1))) {
			t.Fatalf("%s: wrong content", what)
		}
		if !sameMemory && !bytes.Equal(in, original) {
			t.Fatalf("%s: In changed", what)
		}
		if last != int64(len(in)) || chunks != int64(len(report.Chunks)) {
			t.Errorf("%s: progress ended at %d, %d chunks computed", what, last, chunks)
		}
		checkReport(f, what, report, p, int64(len(out)))
	}
	f.Works(e)
}

// checkReport checks what holds for every report of a run that went well.
func checkReport(f *fixture, what string, r pipeline.Report, p pipeline.Pipeline, outBytes int64) {
	f.Helper()
	if r.InBytes != p.In.Size() || r.OutBytes != outBytes {
		f.Errorf("%s: %d bytes in, %d out", what, r.InBytes, r.OutBytes)
	}
	if r.InBytes == 0 {
		return
	}
	if p.ChunkBytes > 0 && r.ChunkBytes != min(p.ChunkBytes, r.InBytes) {
		f.Errorf("%s: chunks of %d bytes", what, r.ChunkBytes)
	}
	if want := int((r.InBytes-1)/r.ChunkBytes + 1); len(r.Chunks) != want {
		f.Errorf("%s: %d chunks, want %d", what, len(r.Chunks), want)
	}
	oneClock := r.PinnedIn && (r.PinnedOut || p.Out == nil)
	for k, c := range r.Chunks {
		before := pipeline.ChunkTimes{}
		if k > 0 {
			before = r.Chunks[k-1]
		}
		for _, i := range []pipeline.Interval{c.CopyIn, c.Compute, c.CopyOut} {
			if i.Start > i.End {
				f.Errorf("%s: chunk %d: %+v", what, k, c)
			}
		}
		if c.Compute.Start < before.Compute.End {
			f.Errorf("%s: chunk %d was computed on before the one ahead of it was done: %+v %+v", what, k, before, c)
		}
		if oneClock && (c.CopyIn.Start < 0 || c.CopyIn.End > c.Compute.Start || p.Out != nil && c.Compute.End > c.CopyOut.Start) {
			f.Errorf("%s: chunk %d: stages out of order: %+v", what, k, c)
		}
	}
	if r.Wall <= 0 || r.Ideal <= 0 || r.Overlap < 0 || r.Overlap > 1 || oneClock && r.Efficiency > 1 {
		f.Errorf("%s: %+v", what, r)
	}
}

// Without Out nothing comes back, and Compute keeps what it needs.
func TestPipelineReduction(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	const chunk, chunks = 5000, 21
	for _, in := range [][]byte{unique(chunk*chunks, 3), f.PinnedMemory(chunk * chunks)} {
		copy(in, unique(chunk*chunks, 3))
		result := f.Alloc(chunks)
		report, err := f.run(ctx, e, pipeline.Pipeline{
			In: pipeline.Bytes(in), ChunkBytes: chunk,
			Compute: func(s device.Stream, c pipeline.Chunk) error {
				if c.Out != 0 || c.OutBytes != 0 {
					return fmt.Errorf("a buffer of %d bytes at %#x for no Out", c.OutBytes, c.Out)
				}
				return s.CopyD2D(result.Add(int64(c.Index)), c.In.Add(7), 1)
			},
		})
		f.OK(err)
		got := f.Download(make([]byte, chunks), result)
		for k := range got {
			if got[k] != in[k*chunk+7] {
				t.Fatalf("chunk %d gave %d, want %d", k, got[k], in[k*chunk+7])
			}
		}
		if report.CopyOut != 0 || report.DeviceBytes > 3*(chunk+256) {
			t.Errorf("%+v", report)
		}
	}
}

// A run of nothing does nothing.
func TestPipelineEmpty(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	report, err := f.run(ctx, e, pipeline.Pipeline{
		In: pipeline.Bytes(nil), Out: pipeline.Bytes(nil),
		Compute:  func(device.Stream, pipeline.Chunk) error { t.Error("computed on nothing"); return nil },
		Progress: func(int64, int64) { t.Error("progress of nothing") },
	})
	f.OK(err)
	if len(report.Chunks) != 0 || report.Wall != 0 {
		t.Errorf("%+v", report)
	}
}

// Where all is pinned, the host queues ahead of the device: twice as many
// chunks as there are buffers.
func TestPipelineQueuesAhead(t *testing.T) {
	const chunk, chunks = 1000, 40
	for _, buffers := range []int{1, 2, 3} {
		f := open(t)
		f.needsCaller()
		e := f.Engine(small)
		in, out := f.PinnedMemory(chunk*chunks), f.PinnedMemory(chunk*chunks)
		wait, release := f.Gate()
		_, err := f.run(ctx, e, pipeline.Pipeline{
			In: pipeline.Bytes(in), Out: pipeline.Bytes(out), ChunkBytes: chunk, Buffers: buffers,
			Compute: func(s device.Stream, c pipeline.Chunk) error {
				if c.Index == 2*buffers-1 {
					release() // or the first chunk never ends
				}
				if c.Index == 0 {
					return f.call(s, func() error { wait(); return nil })
				}
				return mark(s, c)
			},
		})
		f.OK(err)
	}
}

// ported is memory that is no Bytes, so that it takes the blocking way, and
// tells of its chunks.
type ported struct {
	pipeline.Bytes
	done func(index int64) // after the copy of a chunk
	size int64             // of a chunk
}

func (p ported) ReadTo(ctx context.Context, e *transfer.Engine, dst device.Ptr, offset, n int64, progress func(done, total int64)) error {
	err := p.Bytes.ReadTo(ctx, e, dst, offset, n, progress)
	p.done(offset / p.size)
	return err
}

func (p ported) WriteFrom(ctx context.Context, e *transfer.Engine, src device.Ptr, offset, n int64, progress func(done, total int64)) error {
	err := p.Bytes.WriteFrom(ctx, e, src, offset, n, progress)
	p.done(offset / p.size)
	return err
}

// While a chunk is computed on, those behind it are copied in and the one ahead
// of it is copied out: the run would hang otherwise.
func TestPipelineOverlaps(t *testing.T) {
	const chunk, chunks, at = 1000, 9, 4
	for _, c := range []struct {
		buffers int
		inPlace bool
		in, out int // chunks that must be across while chunk number at is computed on
	}{
		{2, false, at + 1, at - 1},
		{3, false, at + 2, at - 1},
		{3, true, at + 2, at - 1},
	} {
		f := open(t)
		f.needsCaller()
		e := f.Engine(small)
		var all sync.WaitGroup // of the copies to wait for
		all.Add(2)
		arrive := func(at int) func(int64) {
			return func(index int64) {
				if index == int64(at) {
					all.Done()
				}
			}
		}
		_, err := f.run(ctx, e, pipeline.Pipeline{
			In:         ported{make([]byte, chunk*chunks), arrive(c.in), chunk},
			Out:        ported{make([]byte, chunk*chunks), arrive(c.out), chunk},
			ChunkBytes: chunk, Buffers: c.buffers, InPlace: c.inPlace,
			Compute: func(s device.Stream, chunk pipeline.Chunk) error {
				if chunk.Index == at {
					return f.call(s, func() error { all.Wait(); return nil })
				}
				return mark(s, chunk)
			},
		})
		f.OK(err)
	}
}

// A copy that blocks begins while the last part of the one ahead is under way,
// and not before that.
func TestPipelineCopiesTwoAtOnce(t *testing.T) {
	const chunk, chunks = 1000, 6
	f := open(t)
	e := f.Engine(small)
	var begun atomic.Int64
	source := &slowSource{Bytes: make([]byte, chunk*chunks)}
	next := make(chan struct{}, chunks)
	source.read = func(index int64, progress func(done, total int64)) error {
		if begun.Add(1) != index+1 {
			t.Errorf("chunk %d begins as number %d", index, begun.Load())
		}
		next <- struct{}{}
		if index > 0 {
			return nil
		}
		<-next
		progress(chunk/2, chunk)
		select {
		case <-next:
			t.Error("the second copy began in the first half of the first")
		case <-time.After(5 * time.Millisecond):
		}
		progress(chunk*9/10, chunk)
		<-next // or it hangs
		return nil
	}
	_, err := f.run(ctx, e, pipeline.Pipeline{In: source, ChunkBytes: chunk, Compute: func(device.Stream, pipeline.Chunk) error { return nil }})
	f.OK(err)
	if begun.Load() != chunks {
		t.Errorf("%d chunks", begun.Load())
	}
}

// slowSource reads as a test says.
type slowSource struct {
	pipeline.Bytes
	read func(index int64, progress func(done, total int64)) error
}

func (s *slowSource) ReadTo(_ context.Context, _ *transfer.Engine, _ device.Ptr, offset, n int64, progress func(done, total int64)) error {
	return s.read(offset/n, progress)
}

// Runs on one engine, at once, with plain copies beside them.
func TestPipelinesAtOnce(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	const n, chunk = 100_000, 7000
	var runs []<-chan error
	for i := range 4 {
		in, out := unique(n, byte(i)), make([]byte, n)
		if i%2 == 0 {
			in = f.PinnedMemory(n)
			copy(in, unique(n, byte(i)))
		}
		want := marked(in, 1, 1, chunk)
		runs = append(runs, async(func() error {
			for range 5 {
				clear(out)
				if _, err := pipeline.Run(ctx, e, pipeline.Pipeline{
					In: pipeline.Bytes(in), Out: pipeline.Bytes(out), ChunkBytes: chunk, Compute: mark,
				}); err != nil {
					return err
				}
				if !bytes.Equal(out, want) {
					return fmt.Errorf("run %d: wrong content", i)
				}
			}
			return nil
		}))
	}
	f.Works(e)
	for _, r := range runs {
		f.OK(f.Arrives("a run beside others", r))
	}
}
