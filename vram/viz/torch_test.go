package viz

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/trace"
)

func torchBytes(t *testing.T, s vram.Snapshot) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := WriteTorch(&out, s); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestTorchRules(t *testing.T) {
	snapshots(func(name string, m *model, s vram.Snapshot) bool {
		return t.Run(name, func(t *testing.T) {
			data := torchBytes(t, s)
			openPage(t, data).check()
			replayTorch(t, data, m, s)
		})
	})
}

// replayTorch wants Pinion's own reader to accept the file, and to end with
// what is live.
func replayTorch(t *testing.T, data []byte, m *model, s vram.Snapshot) {
	r, err := trace.NewReader(bytes.NewReader(data), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	live := map[uint64]int64{}
	for e, err := range r.All() {
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Failed:
		case e.Op == trace.Alloc:
			live[e.ID] = e.Bytes
		default:
			delete(live, e.ID)
		}
	}
	got, want := slices.Collect(maps.Values(live)), []int64(nil)
	for _, b := range m.blocks {
		if b.State == vram.BlockLive {
			want = append(want, b.Requested)
		} else if !slices.ContainsFunc(s.Events, func(e vram.Event) bool { return e.Address == b.Address }) {
			want = append(want, b.Requested) // it holds its memory, and no event says that it was freed
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("live at the end: %d, want %d", got, want)
	}
}

// TestTorchContradiction gives events that do not fit what is there, which a
// pool never does, and wants a file by the rules all the same.
func TestTorchContradiction(t *testing.T) {
	snapshots(func(name string, m *model, s vram.Snapshot) bool {
		if len(s.Events) == 0 {
			return true
		}
		events := slices.Clone(s.Events)
		for range 5 {
			i := m.r.IntN(len(events))
			if e := events[i]; e.Kind != vram.EventMap && e.Kind != vram.EventUnmap {
				events = slices.Insert(slices.Delete(events, i, i+1), i, events[m.r.IntN(i+1)])
				events[i].Time = e.Time
				if k := events[i].Kind; k == vram.EventMap || k == vram.EventUnmap {
					events[i] = e
				}
			}
		}
		s.Events = events
		return t.Run(name, func(t *testing.T) {
			// What cannot be is left out; what is left need not be true, but must
			// not make the page undo what was not done.
			p := openPage(t, torchBytes(t, s))
			state := map[int64]string{}
			for _, segment := range p.segments {
				for _, b := range get[*pickle.List](p, segment, "blocks").Items {
					if s := get[string](p, b.(*pickle.Dict), "state"); s != "inactive" {
						state[p.int(b.(*pickle.Dict), "address")] = s
					}
				}
			}
			for i := len(p.events) - 1; i >= 0; i-- {
				addr := p.int(p.events[i], "addr")
				want, next := "", ""
				switch get[string](p, p.events[i], "action") {
				case "alloc":
					want, next = "active_allocated", ""
				case "free_requested":
					want, next = "active_pending_free", "active_allocated"
				case "free_completed":
					want, next = "", "active_pending_free"
				default:
					continue
				}
				if state[addr] != want {
					t.Fatalf("event %d undoes %q of %#x, which is %q", i, want, addr, state[addr])
				}
				state[addr] = next
			}
		})
	})
}

// TestTorchShows looks for what a person looks for.
func TestTorchShows(t *testing.T) {
	m := newModel(1)
	m.mapped[0] = true
	live := vram.BlockInfo{Address: base, Bytes: 1024, Requested: 1000, Stream: 2, Purpose: vram.Activations, Name: "layer 3", Stack: m.stack}
	gone := vram.BlockInfo{Address: base.Add(1024), Bytes: 512, Requested: 1, Purpose: vram.Weights}
	m.log(event(vram.EventAlloc, live))
	m.log(event(vram.EventAlloc, gone))
	m.log(event(vram.EventFree, gone))
	m.log(vram.Event{Kind: vram.EventOutOfMemory, Purpose: vram.KVCache, Address: 12345, Bytes: 1024, Asked: 1000, Name: "page"})
	gone.State = vram.BlockPending
	m.blocks = []vram.BlockInfo{live, gone}
	p := openPage(t, torchBytes(t, m.snapshot(100)))
	p.check()
	if free := p.int(p.events[3], "device_free"); free != 12345 || p.device != 1 {
		t.Errorf("%d bytes free on device %d", free, p.device)
	}

	var got []string
	for _, e := range p.events {
		name, _ := e.Get("user_metadata")
		category, _ := e.Get("category")
		got = append(got, fmt.Sprintf("%s %d on %d: %s, %v, %v", get[string](p, e, "action"), p.int(e, "size"), p.int(e, "stream"), p.frames(e), category, name))
	}
	for _, item := range get[*pickle.List](p, p.segments[0], "blocks").Items {
		b := item.(*pickle.Dict)
		got = append(got, fmt.Sprintf("%s %d of %d: %s", get[string](p, b, "state"), p.int(b, "requested_size"), p.int(b, "size"), p.frames(b)))
	}
	want := []string{
		"alloc 1000 on 2: activations: layer 3, activations, layer 3",
		"alloc 1 on 0: weights, weights, <nil>",
		"free_requested 1 on 0: weights, weights, <nil>",
		"oom 1000 on 0: kvcache: page, kvcache, page",
		"snapshot 0 on 0: , unknown, <nil>",
		"active_allocated 1000 of 1024: activations: layer 3",
		"active_pending_free 1 of 512: weights",
		"inactive 0 of 2095616: ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Below the purpose is the stack, the innermost call first.
	calls := get[*pickle.List](p, p.events[0], "frames").Items
	if name := get[string](p, calls[1].(*pickle.Dict), "name"); !strings.HasSuffix(name, "viz.newModel") {
		t.Errorf("the innermost call is %q", name)
	}
	if now := p.int(p.events[0], "time_us"); now != start.Add(m.events[0].Time).UnixMicro() {
		t.Errorf("time %d", now)
	}
}

// TestTorchSegments wants whole segments where the pool has no chunks.
func TestTorchSegments(t *testing.T) {
	s := vram.Snapshot{Device: "host", Start: start, Time: start.Add(time.Second), Events: []vram.Event{
		{Kind: vram.EventMap, Address: base, Bytes: chunk}, {Kind: vram.EventUnmap, Address: base, Bytes: chunk},
	}}
	root, err := pickle.Decode(torchBytes(t, s))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t}
	traces := get[*pickle.List](p, root.(*pickle.Dict), "device_traces").Items
	var got []string
	for _, e := range traces[0].(*pickle.List).Items {
		got = append(got, get[string](p, e.(*pickle.Dict), "action"))
	}
	// Rule: segment_alloc and segment_free are of a whole segment; only these are
	// in the timeline of segments.
	if want := []string{"segment_alloc", "segment_free", "snapshot"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestDeviceNumber(t *testing.T) {
	for id, want := range map[string]int{"cuda:0": 0, "cuda:3": 3, "host": 0, "host:4GiB": 0, "": 0, "x:-1": 0, "x:1000000": 0} {
		if got := deviceNumber(id); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for p, want := range map[device.Ptr]any{0: int64(0), base: int64(base), 1<<63 - 1: int64(1<<63 - 1), 1 << 63: uint64(1 << 63)} {
		if got := address(p); got != want {
			t.Errorf("%#x: %T %v, want %T %v", uint64(p), got, got, want, want)
		}
	}
}
