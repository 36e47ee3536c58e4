package pipeline_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

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
