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
	"github.com/pinion-gpu/pinion/device/devicetest"
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

// Everything that a run makes can fail to be made; nothing is left behind.
func TestPipelineMakingFails(t *testing.T) {
	broken := errors.New("broken on purpose")
	forKinds(t, func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
		f.Works(e) // its own streams are there
		_, err := f.run(ctx, e, p)
		f.OK(err)
		for fail := int64(0); ; fail++ {
			fill(out, before)
			var made atomic.Int64
			f.Dev.OnMake(func() error {
				if made.Add(1) == fail+1 {
					return broken
				}
				return nil
			})
			opened := f.Dev.Opened.Load()
			report, err := f.run(ctx, e, p)
			f.Dev.OnMake(func() error { return nil })
			if made.Load() <= fail {
				f.OK(err)
				if fail < 10 {
					t.Errorf("%d streams and events were made, want more", fail)
				}
				return
			}
			f.Fails("Run", err, broken)
			if now := f.Dev.Opened.Load(); now > opened {
				t.Fatalf("making number %d failed: %d streams and events are open, before %d", fail, now, opened)
			}
			if fail%7 == 0 {
				f.afterFailure(e, p, report, in, out)
			}
		}
	})
}

func TestPipelineOutOfMemory(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	huge := pipeline.Pipeline{In: vast{}, ChunkBytes: 1 << 50, Compute: mark}
	_, err := f.run(ctx, e, huge)
	f.Fails("Run", err, device.ErrOutOfMemory)
	for _, number := range []string{"3 buffers", "1 PiB in"} {
		if !strings.Contains(err.Error(), number) {
			t.Errorf("%q does not tell %q", err, number)
		}
	}
	huge.ChunkBytes, huge.ItemBytes = 0, 1<<55
	_, err = f.run(ctx, e, huge)
	f.Fails("Run", err, device.ErrOutOfMemory)
	f.Works(e)
}

// vast is a source of more bytes than any device has.
type vast struct{ pipeline.Bytes }

func (vast) Size() int64 { return 1 << 60 }

func TestPipelineBadOptions(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	_, err := f.run(ctx, e, pipeline.Pipeline{In: pipeline.Bytes(make([]byte, 10)), ItemBytes: 3, Compute: mark})
	f.Fails("Run", err, device.ErrArgument)
}

func TestPipelineCancelledBefore(t *testing.T) {
	f := open(t)
	e := f.Engine(small)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	p := pipeline.Pipeline{In: pipeline.Bytes(make([]byte, 10)), Compute: func(device.Stream, pipeline.Chunk) error {
		t.Error("a run that never began")
		return nil
	}}
	_, err := f.run(ended, e, p)
	f.Fails("Run", err, context.Canceled)
	late, cancel := context.WithDeadline(ctx, time.Unix(0, 0))
	defer cancel()
	_, err = f.run(late, e, p)
	f.Fails("Run", err, context.DeadlineExceeded)
}

func TestPipelineCancelled(t *testing.T) {
	for _, from := range []string{"Progress", "Compute", "the device", "a copy"} {
		t.Run("from "+from, func(t *testing.T) {
			forKinds(t, func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
				if from == "the device" {
					f.needsCaller()
				}
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				switch from {
				case "Progress":
					p.Progress = func(done, _ int64) {
						if done >= badChunk*chunkSize {
							cancel()
						}
					}
				case "a copy":
					var copies atomic.Int64
					f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
						if copies.Add(1) == 2*badChunk {
							cancel()
						}
						return nil
					})
				}
				p.Compute = func(s device.Stream, chunk pipeline.Chunk) error {
					if chunk.Index == badChunk {
						switch from {
						case "Compute":
							cancel()
						case "the device":
							if err := f.call(s, func() error { cancel(); time.Sleep(time.Millisecond); return nil }); err != nil {
								return err
							}
						}
					}
					// Slowly, so that the run does not end first.
					return errors.Join(mark(s, chunk), f.dawdle(s, 100*time.Microsecond))
				}
				report, err := f.run(ctx, e, p)
				if err == nil && report.InBytes == int64(len(in)) && from != "Compute" {
					return // it was quicker
				}
				f.Fails("Run", err, context.Canceled)
				f.afterFailure(e, p, report, in, out)
			})
		})
	}
}

// A panic of Progress is the caller's, and leaves nothing behind.
func TestPipelineProgressPanics(t *testing.T) {
	forKinds(t, func(f *fixture, e *transfer.Engine, p pipeline.Pipeline, in, out []byte) {
		free := f.free()
		p.Progress = func(done, _ int64) {
			if done > badChunk*chunkSize {
				panic("a panic on purpose")
			}
		}
		err := f.Within("Run", func() (err error) {
			defer func() { err = fmt.Errorf("panicked: %v", recover()) }()
			_, err = pipeline.Run(ctx, e, p)
			return err
		})
		if err.Error() != "panicked: a panic on purpose" {
			t.Error(err)
		}
		f.gaveBack(free, 0)
		fill(out, before)
		f.afterFailure(e, p, pipeline.Report{Buffers: 3}, in, out)
	})
}

func TestPipelineClosed(t *testing.T) {
	f := open(t)
	e, err := transfer.New(f.Dev, small)
	f.OK(err)
	p := pipeline.Pipeline{In: pipeline.Bytes(f.PinnedMemory(1000)), Compute: func(device.Stream, pipeline.Chunk) error { return nil }}
	_, err = pipeline.Run(ctx, e, p)
	f.OK(err)
	f.OK(e.Close())
	_, err = pipeline.Run(ctx, e, p)
	f.Fails("Run on a closed engine", err, device.ErrClosed)
}

// A device that is closed under a run ends it.
func TestPipelineDeviceClosed(t *testing.T) {
	for _, pinnedMemory := range []bool{false, true} {
		t.Run(fmt.Sprintf("pinned %t", pinnedMemory), func(t *testing.T) {
			f := open(t)
			e, err := transfer.New(f.Dev, small)
			f.OK(err)
			const n = 1 << 18 // whole pages
			memory := f.Pages(2 * n)
			if pinnedMemory {
				if err := devicetest.As[device.Pinner](t, f.Dev.Device).Pin(memory, 0); err != nil {
					t.Skip(err)
				}
			}
			source, sink := memory[:n], memory[n:]
			closed := make(chan error, 1)
			_, err = pipeline.Run(ctx, e, pipeline.Pipeline{
				In: pipeline.Bytes(source), Out: pipeline.Bytes(sink), ChunkBytes: chunkSize,
				Compute: func(s device.Stream, c pipeline.Chunk) error {
					if c.Index == badChunk {
						closed <- f.Dev.Close()
					}
					return mark(s, c)
				},
			})
			f.Fails("Run", err, device.ErrClosed)
			f.OK(f.Arrives("device close", closed))
			fill(sink, scribed)
			if err := e.Close(); err != nil && !errors.Is(err, device.ErrClosed) {
				t.Error(err)
			}
		})
	}
}
