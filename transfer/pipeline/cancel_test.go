package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

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
