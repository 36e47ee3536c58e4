package viz

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/internal/pickle"
)

// These are the rules of the readers: torch/utils/viz/MemoryViz.js and
// process_alloc_data.js, which draw the page, and torch/cuda/_memory_viz.py.
// The page does not check: where a rule is broken, it throws in the middle of a
// view, or draws what never happened.

// page is a snapshot as the page holds it.
type page struct {
	t        *testing.T
	device   int64
	segments []*pickle.Dict
	events   []*pickle.Dict
}

func openPage(t *testing.T, data []byte) *page {
	t.Helper()
	root, err := pickle.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	p := &page{t: t}
	// Rule: the pickle is a dict; "segments" and "device_traces" are lists and
	// are read without asking for them.
	for _, s := range get[*pickle.List](p, root.(*pickle.Dict), "segments").Items {
		p.segments = append(p.segments, s.(*pickle.Dict))
	}
	// Rule: device_traces has a list at the number of the device, which the
	// segments carry.
	traces := get[*pickle.List](p, root.(*pickle.Dict), "device_traces").Items
	if len(traces) == 0 {
		t.Fatal("no trace")
	}
	p.device = int64(len(traces)) - 1
	for i, list := range traces {
		if items := list.(*pickle.List).Items; int64(i) == p.device {
			for _, e := range items {
				p.events = append(p.events, e.(*pickle.Dict))
			}
		} else if len(items) > 0 {
			t.Errorf("events of device %d", i)
		}
	}
	return p
}

// get returns a key that must be there.
func get[T any](p *page, d *pickle.Dict, key string) T {
	p.t.Helper()
	v, _ := d.Get(key)
	value, ok := v.(T)
	if !ok {
		p.t.Fatalf("%q is %T", key, v)
	}
	return value
}

func (p *page) int(d *pickle.Dict, key string) int64 { p.t.Helper(); return get[int64](p, d, key) }

// frames checks the rule of frames: a list of dicts with filename and name
// (strings: both are searched in) and line; at least one where something is to
// be shown, or the page explains at length why there is none.
func (p *page) frames(d *pickle.Dict) (first string) {
	p.t.Helper()
	list := get[*pickle.List](p, d, "frames").Items
	for i, f := range list {
		name := get[string](p, f.(*pickle.Dict), "name")
		file := get[string](p, f.(*pickle.Dict), "filename")
		p.int(f.(*pickle.Dict), "line")
		if !utf8.ValidString(name + file) {
			p.t.Errorf("frame %q %q", file, name)
		}
		if i == 0 {
			first = name
		}
	}
	return first
}

type pageSegment struct{ addr, size int64 }

type pageBlock struct {
	size          int64
	freeRequested bool
}

func (p *page) check() {
	t := p.t
	segments := []pageSegment{}
	blocks := map[int64]*pageBlock{}
	end := int64(0)
	for _, s := range p.segments {
		if p.int(s, "device") != p.device {
			t.Errorf("device %d", p.int(s, "device"))
		}
		addr, total := p.int(s, "address"), p.int(s, "total_size")
		// Rule: segments do not overlap; the page looks addresses up by halving.
		if addr < end || total <= 0 {
			t.Errorf("the segment at %#x of %d bytes is behind %#x", addr, total, end)
		}
		end = addr + total
		// Rule: numbers become JavaScript's, which are exact below 2^53.
		if end >= 1<<53 {
			t.Errorf("%#x is not exact in JavaScript", end)
		}
		// Rule: a segment merges with its neighbour only on the same stream, and
		// an undone map must lie in one segment.
		if p.int(s, "stream") != 0 {
			t.Errorf("a segment on stream %d", p.int(s, "stream"))
		}
		p.frames(s)
		if kind := get[string](p, s, "segment_type"); kind != "small" && kind != "large" {
			t.Errorf("segment type %q", kind)
		}
		// Rule: pool (0, 0) is PyTorch's default; others are drawn apart.
		if pool := get[*pickle.Tuple](p, s, "segment_pool_id"); len(pool.Items) != 2 || pool.Items[0] != int64(0) || pool.Items[1] != int64(0) {
			t.Errorf("pool %v", pool.Items)
		}
		at, allocated, active, requested := addr, int64(0), int64(0), int64(0)
		for _, item := range get[*pickle.List](p, s, "blocks").Items {
			b := item.(*pickle.Dict)
			size, asked := p.int(b, "size"), p.int(b, "requested_size")
			// Rule: blocks have no gaps: the page counts their addresses up.
			if p.int(b, "address") != at {
				t.Errorf("a block at %#x, want %#x", p.int(b, "address"), at)
			}
			name := p.frames(b)
			switch state := get[string](p, b, "state"); state {
			case "active_allocated", "active_pending_free":
				if state == "active_allocated" {
					allocated += size
				}
				active += size
				requested += asked
				// Rule: what rounding lost is drawn with size - requested_size.
				if asked <= 0 || asked > size || name == "" {
					t.Errorf("%s: %d of %d bytes asked for, %q", state, asked, size, name)
				}
				blocks[at] = &pageBlock{asked, state == "active_pending_free"}
			case "inactive":
				if asked != 0 {
					t.Errorf("%d bytes asked for in a free block", asked)
				}
			default:
				t.Errorf("state %q", state)
			}
			at += size
		}
		// Rule: the blocks add up to the segment (asserted by _memory_viz.py).
		if at != end || p.int(s, "allocated_size") != allocated || p.int(s, "active_size") != active || p.int(s, "requested_size") != requested {
			t.Errorf("the segment at %#x does not add up", addr)
		}
		segments = append(segments, pageSegment{addr, total})
	}
	p.forward()
	p.backward(segments, blocks)
}

// forward checks what the timeline does, from the first event on.
func (p *page) forward() {
	t := p.t
	live := map[int64]int64{}
	requested := map[int64]int64{}
	seen := map[int64]bool{}
	categories := map[string]bool{}
	before := int64(0)
	for i, e := range p.events {
		// Rule: times ascend; they are microseconds since 1970, shown as a date.
		now := p.int(e, "time_us")
		if now < before || now < start.UnixMicro() {
			t.Errorf("event %d at %d, behind %d", i, now, before)
		}
		before = now
		p.frames(e)
		p.int(e, "stream")
		addr, size := p.int(e, "addr"), p.int(e, "size")
		if c, ok := e.Get("category"); ok {
			categories[c.(string)] = true
		}
		switch action := get[string](p, e, "action"); action {
		case "alloc":
			// Rule: an address is allocated once until its free_completed; the
			// page would take the second for the first one's end.
			if live[addr] != 0 || requested[addr] != 0 {
				t.Errorf("event %d: alloc of %#x, which is live", i, addr)
			}
			live[addr], seen[addr] = size, true
		case "free_requested":
			// Rule: it is about a live block, of that size; only the first event
			// of an address may be about what the ring has lost.
			if (seen[addr] && live[addr] != size) || requested[addr] != 0 {
				t.Errorf("event %d: free of %d bytes at %#x, which has %d", i, size, addr, live[addr])
			}
			delete(live, addr)
			requested[addr], seen[addr] = size, true
		case "free_completed":
			// Rule: free_completed comes behind the free_requested of the address;
			// next to it, the page makes one event of the two.
			if seen[addr] && requested[addr] != size {
				t.Errorf("event %d: completed %d bytes at %#x, requested were %d", i, size, addr, requested[addr])
			}
			delete(requested, addr)
			seen[addr] = true
		case "segment_map", "segment_unmap", "segment_alloc", "segment_free":
			if size <= 0 || p.int(e, "stream") != 0 {
				t.Errorf("event %d: %s of %d bytes", i, action, size)
			}
		case "oom":
			// Rule: device_free is shown.
			if p.int(e, "device_free") < 0 || size <= 0 {
				t.Errorf("event %d: %d free, %d asked for", i, p.int(e, "device_free"), size)
			}
		case "snapshot":
			if i != len(p.events)-1 {
				t.Errorf("event %d of %d is the snapshot", i, len(p.events))
			}
		default:
			t.Errorf("event %d: action %q", i, action)
		}
	}
	// Rule: if any event has a category, one has "unknown", or the page throws.
	if len(categories) > 0 && !categories["unknown"] {
		t.Errorf("no unknown among %v", categories)
	}
}

// backward checks what the map of the memory does: it undoes events, from the
// segments and blocks at the end.
func (p *page) backward(segments []pageSegment, blocks map[int64]*pageBlock) {
	t := p.t
	for i := len(p.events) - 1; i >= 0; i-- {
		e := p.events[i]
		addr, size := p.int(e, "addr"), p.int(e, "size")
		switch get[string](p, e, "action") {
		case "alloc":
			// Rule: it leaves a live block behind, unless later events end it.
			if b := blocks[addr]; b == nil || b.freeRequested || b.size != size {
				t.Fatalf("event %d: alloc of %d bytes at %#x left %+v", i, size, addr, b)
			}
			delete(blocks, addr)
		case "free_requested":
			// Rule: the page sets a field of the block, which must be there.
			if b := blocks[addr]; b == nil || !b.freeRequested {
				t.Fatalf("event %d: free of %#x left %+v", i, addr, b)
			}
			blocks[addr].freeRequested = false
		case "free_completed":
			if blocks[addr] != nil {
				t.Fatalf("event %d: completed free of %#x left a block", i, addr)
			}
			blocks[addr] = &pageBlock{size, true}
		case "segment_alloc":
			// Rule: it is a segment as a whole.
			k := slices.Index(segments, pageSegment{addr, size})
			if k < 0 {
				t.Fatalf("event %d: segment of %d bytes at %#x, which is none of %v", i, size, addr, segments)
			}
			segments = slices.Delete(segments, k, k+1)
		case "segment_free":
			segments = append(segments, pageSegment{addr, size})
		case "segment_map":
			// Rule: what is unmapped lies in one segment as a whole.
			k := slices.IndexFunc(segments, func(s pageSegment) bool { return s.addr <= addr && addr+size <= s.addr+s.size })
			if k < 0 {
				t.Fatalf("event %d: map of %d bytes at %#x, which no segment has: %v", i, size, addr, segments)
			}
			s := segments[k]
			segments = slices.Delete(segments, k, k+1)
			if s.addr < addr {
				segments = append(segments, pageSegment{s.addr, addr - s.addr})
			}
			if s.addr+s.size > addr+size {
				segments = append(segments, pageSegment{addr + size, s.addr + s.size - addr - size})
			}
		case "segment_unmap":
			for k := 0; k < len(segments); k++ { // neighbours become one
				s := segments[k]
				if s.addr < addr+size && addr < s.addr+s.size {
					t.Fatalf("event %d: unmap of %d bytes at %#x, in %+v", i, size, addr, s)
				}
				if s.addr+s.size == addr || addr+size == s.addr {
					addr, size = min(addr, s.addr), size+s.size
					segments = slices.Delete(segments, k, k+1)
					k--
				}
			}
			segments = append(segments, pageSegment{addr, size})
		}
		// Rule: every block lies in a segment at every event.
		for at, b := range blocks {
			if !slices.ContainsFunc(segments, func(s pageSegment) bool { return s.addr <= at && at+b.size <= s.addr+s.size }) {
				t.Fatalf("behind event %d: the block at %#x is in no segment", i, at)
			}
		}
	}
}
