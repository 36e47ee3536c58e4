package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

const (
	badChunk   = 5
	chunkSize  = 20_000 // above small.StageAbove, so that it is staged
	chunkCount = 12
)

// kinds are the kinds of host memory on both sides.
var kinds = []struct{ pinnedIn, pinnedOut, inPlace bool }{
	{true, true, false}, {false, false, false}, {true, false, false}, {false, true, false},
	{true, true, true}, {false, false, true}, {true, false, true}, {false, true, true},
}

// forKinds runs a sub-test for each kind, with a pipeline of chunkCount chunks
// that mark what goes through.
func forKinds(t *testing.T, test func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte)) {
	for _, k := range kinds {
		t.Run(fmt.Sprintf("pinned %t to %t, in place %t", k.pinnedIn, k.pinnedOut, k.inPlace), func(t *testing.T) {
			f := open(t)
			memory := func(pinned bool) []byte {
				if pinned {
					return f.PinnedMemory(chunkSize * chunkCount)
				}
				return make([]byte, chunkSize*chunkCount)
			}
			in, out := memory(k.pinnedIn), memory(k.pinnedOut)
			copy(in, unique(int64(len(in)), 8))
			fill(out, before)
			test(f, f.Engine(small), pipeline.Pipeline{
				In: pipeline.Bytes(in), Out: pipeline.Bytes(out), ChunkBytes: chunkSize, InPlace: k.inPlace, Compute: mark,
			}, in, out)
		})
	}
}

// afterFailure checks what holds after a run that was ended: the report counts
// whole chunks, whose results are there; nobody uses the caller's memory any
// more; and everything still works.
func (f *fixture) afterFailure(e *transfer.Engine, p pipeline.Pipeline, report pipeline.Report, in, out []byte) {
	f.Helper()
	f.Dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
	if n := report.InBytes; n%chunkSize != 0 || n != report.OutBytes || n != int64(len(report.Chunks))*chunkSize {
		f.Errorf("%d bytes in, %d out, %d chunks", n, report.InBytes, len(report.Chunks))
	}
	want := marked(in, 1, 1, chunkSize)
	if n := report.OutBytes; !bytes.Equal(out[:n], want[:n]) {
		f.Errorf("the first %d bytes of Out are wrong", n)
	}
	if at := report.OutBytes + int64(2*report.Buffers*chunkSize); at < int64(len(out)) &&
		bytes.Count(out[at:], []byte{before}) != len(out)-int(at) {
		f.Errorf("%d bytes got through; Out was written behind byte %d", report.OutBytes, at)
	}
	fill(out, scribed) // with -race, anybody who still uses it is a race
	f.OK(f.Dev.Synchronize())
	if bytes.Count(out, []byte{scribed}) != len(out) {
		f.Error("Out was written after Run returned")
	}
	p.Compute, p.Progress = mark, nil
	_, err := f.run(ctx, e, p)
	f.OK(err)
	if !bytes.Equal(out, want) {
		f.Error("wrong content in the run after the failure")
	}
	f.Works(e)
}

// names checks that err names the chunk that failed.
func (f *fixture) names(err error, stage string) {
	f.Helper()
	want := fmt.Sprintf("chunk %d (bytes %d to %d of In): %s", badChunk, badChunk*chunkSize, (badChunk+1)*chunkSize, stage)
	if !strings.Contains(err.Error(), want) {
		f.Errorf("%q does not tell %q", err, want)
	}
}

func TestPipelineComputeFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	for _, c := range []struct {
		name string
		do   func(f *fixture, s device.Stream) error
		is   error
		text string
	}{
		{"error", func(*fixture, device.Stream) error { return broken }, broken, ""},
		{"panic", func(*fixture, device.Stream) error { panic("a panic on purpose") }, nil, "a panic on purpose"},
		{"error on the device", func(f *fixture, s device.Stream) error {
			return f.call(s, func() error { return broken })
		}, broken, ""},
		{"late error on the device", func(f *fixture, s device.Stream) error {
			return f.call(s, func() error { time.Sleep(2 * time.Millisecond); return broken })
		}, broken, ""},
		{"panic on the device", func(f *fixture, s device.Stream) error {
			return f.call(s, func() error { panic("a panic on purpose") })
		}, nil, "a panic on purpose"},
	} {
		t.Run(c.name, func(t *testing.T) {
			forKinds(t, func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
				if strings.HasSuffix(c.name, "on the device") {
					f.needsCaller()
				}
				p.Compute = func(s device.Stream, chunk pipeline.Chunk) error {
					if chunk.Index == badChunk {
						if err := mark(s, chunk); err != nil {
							return err
						}
						return c.do(f, s)
					}
					return mark(s, chunk)
				}
				report, err := f.run(ctx, e, p)
				if err == nil {
					t.Fatal("no error")
				}
				if c.is != nil {
					f.Fails("Run", err, c.is)
				}
				if !strings.Contains(err.Error(), c.text) {
					t.Errorf("%q does not tell %q", err, c.text)
				}
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("more than one line: %v", err)
				}
				if c.name == "panic" && !strings.Contains(fmt.Sprintf("%+v", err), "failure_test.go:") {
					t.Errorf("%%+v does not show where it was: %+v", err)
				}
				f.names(err, "compute: ")
				if report.InBytes > badChunk*chunkSize {
					t.Errorf("%d bytes got through", report.InBytes)
				}
				f.afterFailure(e, p, report, in, out)
			})
		})
	}
}

// What ends the goroutine, such as t.FailNow in Compute, ends the run.
func TestPipelineGoexit(t *testing.T) {
	forKinds(t, func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
		p.Compute = func(s device.Stream, chunk pipeline.Chunk) error {
			if chunk.Index == badChunk {
				runtime.Goexit()
			}
			return mark(s, chunk)
		}
		report, err := f.run(ctx, e, p)
		if err == nil || !strings.Contains(err.Error(), "goroutine") {
			t.Fatalf("error %v", err)
		}
		f.afterFailure(e, p, report, in, out)
	})
}

func TestPipelineCopyFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	for _, toHost := range []bool{false, true} {
		t.Run(fmt.Sprintf("to host %t", toHost), func(t *testing.T) {
			forKinds(t, func(f *fixture, _ *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
				// One copy a chunk, which a staged one would not be.
				e := f.Engine(transfer.Options{StageAbove: math.MaxInt64})
				var copies atomic.Int64
				f.Dev.OnCopy(func(b []byte, _ device.Ptr, back bool) error {
					if back == toHost && len(b) > 0 && copies.Add(1) == badChunk+1 {
						return broken
					}
					return nil
				})
				report, err := f.run(ctx, e, p)
				f.Fails("Run", err, broken)
				stage := "copy in: "
				if toHost {
					stage = "copy out: "
				}
				f.names(err, stage)
				if report.InBytes > badChunk*chunkSize {
					t.Errorf("%d bytes got through", report.InBytes)
				}
				f.afterFailure(e, p, report, in, out)
			})
		})
	}
}

// A source and a sink of the caller's own may do anything.
func TestPipelineSourceFails(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	broken := errors.New("broken on purpose")
	for name, do := range map[string]func() error{
		"error":                   func() error { return broken },
		"panic":                   func() error { panic(broken) },
		"goroutine":               func() error { runtime.Goexit(); return nil },
		"error that is no echo":   func() error { return context.Canceled },
		"deadline that is no end": func() error { return context.DeadlineExceeded },
	} {
		source := &slowSource{Bytes: make([]byte, chunkSize*chunkCount)}
		source.read = func(index int64, _ func(done, total int64)) error {
			if index == badChunk {
				return do()
			}
			return nil
		}
		report, err := f.run(ctx, e, pipeline.Pipeline{In: source, ChunkBytes: chunkSize, Compute: func(device.Stream, pipeline.Chunk) error { return nil }})
		if err == nil || len(report.Chunks) > badChunk {
			t.Errorf("%s: error %v, %d chunks", name, err, len(report.Chunks))
		} else if name != "goroutine" {
			f.names(err, "copy in: ")
		}
	}
	f.Works(e)
}

// Run returns when the last copy has, whatever ended it.
func TestPipelineWaitsForCopies(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	source := &slowSource{Bytes: make([]byte, chunkSize*chunkCount)}
	var inside atomic.Int64
	source.read = func(index int64, progress func(done, total int64)) error {
		inside.Add(1)
		defer inside.Add(-1)
		progress(1, 1)
		if index > 0 {
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	}
	broken := errors.New("broken on purpose")
	_, err := f.run(ctx, e, pipeline.Pipeline{In: source, ChunkBytes: chunkSize, Compute: func(device.Stream, pipeline.Chunk) error { return broken }})
	f.Fails("Run", err, broken)
	if n := inside.Load(); n != 0 {
		t.Errorf("%d copies are under way after Run returned", n)
	}
}
