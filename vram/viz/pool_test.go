package viz

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// TestPool writes snapshots of a pool at work, in each format, and checks them
// by the rules.
func TestPool(t *testing.T) {
	for name, o := range map[string]vram.Options{
		"chunks":             {Source: vram.SourceChunks, Budget: 64 << 20, ChunkBytes: 2 << 20, History: 1 << 20, Stacks: vram.StacksSampled},
		"short ring":         {Source: vram.SourceChunks, Budget: 64 << 20, ChunkBytes: 2 << 20, History: 100},
		"segments":           {Source: vram.SourceSegments, Budget: 64 << 20, History: 300, Stacks: vram.StacksAll},
		"no history":         {Source: vram.SourceChunks, Budget: 64 << 20},
		"driver":             {Source: vram.SourceDriver, Budget: 64 << 20, History: 1 << 20, Stacks: vram.StacksSampled},
		"driver, short ring": {Source: vram.SourceDriver, Budget: 64 << 20, History: 100},
	} {
		t.Run(name, func(t *testing.T) { work(t, o) })
	}
}

func work(t *testing.T, o vram.Options) {
	dev, err := host.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, o)
	if errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	streams := make([]device.Stream, 3)
	for i := range streams[1:] {
		if streams[i+1], err = dev.NewStream(); err != nil {
			t.Fatal(err)
		}
		defer streams[i+1].Close()
	}
	r := rand.New(rand.NewPCG(1, 2))
	var live []vram.Block
	steps := 2000
	if testing.Short() {
		steps = 500
	}
	for i := range steps {
		switch k := r.IntN(100); {
		case k < 50 || len(live) == 0:
			n := 1 + r.Int64N(1<<(5+r.IntN(20)))
			b, err := pool.Alloc(t.Context(), n, vram.Use{Stream: streams[r.IntN(3)], Purpose: vram.Purpose(r.IntN(9)), Name: "x"})
			if err == nil {
				live = append(live, b)
			} else if !errors.Is(err, device.ErrOutOfMemory) {
				t.Fatal(err)
			}
		case k < 99:
			i := r.IntN(len(live))
			if k < 60 {
				if err := live[i].RecordStream(streams[1+r.IntN(2)]); err != nil {
					t.Fatal(err)
				}
			}
			if err := live[i].Free(); err != nil {
				t.Fatal(err)
			}
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		default:
			if _, err := pool.Trim(); err != nil {
				t.Fatal(err)
			}
		}
		if i%100 != 99 {
			continue
		}
		s := pool.Snapshot()
		openPage(t, torchBytes(t, s)).check()
		for _, data := range [][]byte{torchBytes(t, s), jsonBytes(t, s)} {
			reader, err := trace.NewReader(bytes.NewReader(data), trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, err := range reader.All() {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		var chrome bytes.Buffer
		var file chromeFile
		if err := errors.Join(WriteChrome(&chrome, s), json.Unmarshal(chrome.Bytes(), &file)); err != nil {
			t.Fatal(err)
		}
		for _, e := range file.TraceEvents {
			if n, _ := e.Args["bytes"].(float64); n < 0 {
				t.Fatalf("%+v", e)
			}
		}
	}
	for _, b := range live {
		if err := b.Free(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPoolPending wants a block that was freed and is still in use to be shown
// for what it was, also when the ring has lost its events.
func TestPoolPending(t *testing.T) {
	for _, history := range []int{0, 1, 100} {
		dev, err := host.Open(64 << 20)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		pool, err := vram.New(dev, vram.Options{History: history})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		user, err := dev.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer user.Close()
		block, err := pool.Alloc(t.Context(), 1000, vram.Use{Purpose: vram.Activations, Name: "layer 3"})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		busy := dev.Call(user, func() error { <-done; return nil })
		err = errors.Join(busy, block.RecordStream(user), block.Free())
		s := pool.Snapshot()
		close(done)
		if err != nil {
			t.Fatal(err)
		}
		p := openPage(t, torchBytes(t, s))
		p.check()
		found := false
		for _, segment := range p.segments {
			for _, item := range get[*pickle.List](p, segment, "blocks").Items {
				b := item.(*pickle.Dict)
				if get[string](p, b, "state") != "active_pending_free" {
					continue
				}
				found = true
				if n, name, what := p.int(b, "requested_size"), get[string](p, b, "user_metadata"), p.frames(b); n != 1000 || name != "layer 3" || what != "activations: layer 3" {
					t.Errorf("history of %d: %d bytes of %q, %q", history, n, name, what)
				}
			}
		}
		if !found {
			t.Errorf("history of %d: no block is pending", history)
		}
	}
}

// BenchmarkWriteTorch writes a history of 100,000 events.
func BenchmarkWriteTorch(b *testing.B) {
	m := newModel(1)
	for len(m.events) < 100_000 {
		m.step()
	}
	s := m.snapshot(1 << 20)
	var out bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		if err := WriteTorch(&out, s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(out.Len())/float64(len(s.Events)), "file-bytes/event")
}
