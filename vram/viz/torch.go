package viz

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/vram"
)

// WriteTorch writes s as a memory snapshot of PyTorch (the format of
// torch.cuda.memory._dump_snapshot), for the page pytorch.org/memory_viz.
//
// Sizes are those that were asked for, as in PyTorch. Segments are on stream 0,
// since any stream may use them; blocks have streams of their own.
func WriteTorch(w io.Writer, s vram.Snapshot) error {
	t := &torch{frames: newFrames()}
	number := deviceNumber(s.Device)
	traces := &pickle.List{}
	for range number {
		traces.Items = append(traces.Items, &pickle.List{})
	}
	traces.Items = append(traces.Items, t.trace(s))
	segments := &pickle.List{}
	for _, segment := range s.Segments {
		segments.Items = append(segments.Items, t.segment(segment, number, s.Stats.ChunkBytes > 0))
	}
	root := dict(
		"device_traces", traces, // first: so its keys, which are many, get small numbers
		"segments", segments,
		"allocator_settings", settings(s),
		"external_annotations", &pickle.List{},
	)
	if err := pickle.Encode(w, root); err != nil {
		return fmt.Errorf("viz: %w", err)
	}
	return nil
}

// torch makes the parts of a snapshot.
type torch struct{ frames *frames }

// dict makes a dict of keys and values in turn.
func dict(pairs ...any) *pickle.Dict {
	d := &pickle.Dict{Items: make([]pickle.Item, 0, len(pairs)/2)}
	for i := 0; i < len(pairs); i += 2 {
		d.Items = append(d.Items, pickle.Item{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// maxDevices bounds the empty traces before that of the device.
const maxDevices = 256

// deviceNumber is the index of the device with that ID: 1 for "cuda:1".
func deviceNumber(id string) int {
	_, number, _ := strings.Cut(id, ":")
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < maxDevices {
		return n
	}
	return 0
}

// settings is shown in a view of the page.
func settings(s vram.Snapshot) *pickle.Dict {
	return dict(
		"allocator", "pinion vram",
		"device", text(s.Device),
		"budget_bytes", s.Stats.Budget,
		"chunk_bytes", s.Stats.ChunkBytes,
		"dropped_events", s.Dropped,
		"trace_alloc_overflowed", s.Dropped > 0,
	)
}

func (t *torch) segment(s vram.Segment, number int, chunks bool) *pickle.Dict {
	var allocated, active, requested int64
	blocks := &pickle.List{Items: make([]any, 0, len(s.Blocks))}
	for _, b := range s.Blocks {
		state, size, frames := "inactive", int64(0), t.frames.none
		if b.State != vram.BlockFree {
			state, size, frames = "active_pending_free", b.Requested, t.frames.of(b.Purpose, b.Name, b.Stack)
			active += b.Bytes
			requested += size
		}
		if b.State == vram.BlockLive {
			state = "active_allocated"
			allocated += b.Bytes
		}
		block := dict("address", address(b.Address), "size", b.Bytes, "requested_size", size, "state", state, "frames", frames)
		blocks.Items = append(blocks.Items, named(block, b.Name))
	}
	kind := "large"
	if s.Small {
		kind = "small"
	}
	return dict(
		"device", number,
		"address", address(s.Address),
		"total_size", s.Bytes,
		"allocated_size", allocated,
		"active_size", active,
		"requested_size", requested,
		"stream", 0,
		"segment_type", kind,
		"segment_pool_id", defaultPool,
		"is_expandable", chunks,
		"frames", t.frames.reserved,
		"blocks", blocks,
	)
}

// defaultPool says that memory is in none of PyTorch's private pools.
var defaultPool = &pickle.Tuple{Items: []any{0, 0}}

// address is an int where it fits. JavaScript and Python take both.
func address(p device.Ptr) any {
	if n := int64(p); n >= 0 {
		return n
	}
	return uint64(p)
}

// named adds a name where there is one. The page shows it as metadata, and
// replays get it from there.
func named(d *pickle.Dict, name string) *pickle.Dict {
	if name != "" {
		d.Items = append(d.Items, pickle.Item{Key: "user_metadata", Value: text(name)})
	}
	return d
}

// text is s as UTF-8, which pickles and JSON want.
func text(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// asked is the size of a block as its user knows it.
func asked(e vram.Event) int64 {
	if e.Asked > 0 {
		return e.Asked
	}
	return e.Bytes
}
