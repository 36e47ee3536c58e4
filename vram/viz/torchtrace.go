package viz

import (
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pickle"
	"github.com/pinion-gpu/pinion/vram"
)

// PyTorch's words for what happens. It always has two for a free: one where the
// user frees, one where the memory can be used again.
const (
	actAlloc         = "alloc"
	actFreeRequested = "free_requested"
	actFreeCompleted = "free_completed"
	actOutOfMemory   = "oom"
)

// trace makes the trace of the device.
func (t *torch) trace(s vram.Snapshot) *pickle.List {
	mapped, unmapped := "segment_alloc", "segment_free"
	if s.Stats.ChunkBytes > 0 { // segments grow and shrink
		mapped, unmapped = "segment_map", "segment_unmap"
	}
	fates := fatesOf(s)
	out := &pickle.List{Items: make([]any, 0, len(s.Events)+1)}
	for i, e := range s.Events {
		micros := s.Start.Add(e.Time).UnixMicro()
		block := func(action string) {
			d := dict("action", action, "addr", address(e.Address), "size", asked(e), "stream", int64(e.Stream), "time_us", micros,
				"category", category(e.Purpose), "frames", t.frames.of(e.Purpose, e.Name, e.Stack))
			out.Items = append(out.Items, named(d, e.Name))
		}
		segment := func(action string) {
			out.Items = append(out.Items, dict("action", action, "addr", address(e.Address), "size", e.Bytes, "stream", 0,
				"time_us", micros, "frames", t.frames.reserved))
		}
		switch {
		case fates[i] == impossible:
		case e.Kind == vram.EventAlloc:
			block(actAlloc)
		case e.Kind == vram.EventFree:
			block(actFreeRequested)
			if fates[i] == atOnce {
				block(actFreeCompleted)
			}
		case e.Kind == vram.EventReady:
			block(actFreeCompleted)
		case e.Kind == vram.EventMap:
			segment(mapped)
		case e.Kind == vram.EventUnmap:
			segment(unmapped)
		case e.Kind == vram.EventOutOfMemory:
			d := dict("action", actOutOfMemory, "addr", address(e.Address), "device_free", address(e.Address), "size", asked(e), "stream", int64(e.Stream),
				"time_us", micros, "category", category(e.Purpose), "frames", t.frames.of(e.Purpose, e.Name, e.Stack))
			out.Items = append(out.Items, named(d, e.Name))
		}
	}
	if len(out.Items) > 0 {
		// PyTorch ends a trace so, too. The category matters: the page gives it
		// to what has none, and fails if no event has it.
		out.Items = append(out.Items, dict("action", "snapshot", "addr", 0, "size", 0, "stream", 0, "time_us", s.Time.UnixMicro(),
			"category", "unknown", "frames", t.frames.none))
	}
	return out
}

// category is what the page colours blocks by.
func category(p vram.Purpose) string { return p.String() }

// fate is what became of an event's block.
type fate uint8

const (
	usual      fate = iota
	atOnce          // a free of memory that could be used again at once
	impossible      // it contradicts what came later
)

// fatesOf goes through the events backwards, as the page does: from what is
// there at the end. So events whose beginning the ring has lost cannot mislead
// it, and the page never undoes what was not done.
func fatesOf(s vram.Snapshot) []fate {
	state := map[device.Ptr]vram.BlockState{} // of what is not free
	for _, segment := range s.Segments {
		for _, b := range segment.Blocks {
			if b.State != vram.BlockFree {
				state[b.Address] = b.State
			}
		}
	}
	out := make([]fate, len(s.Events))
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		now, taken := state[e.Address]
		switch e.Kind {
		case vram.EventAlloc:
			if taken && now == vram.BlockLive {
				delete(state, e.Address)
				continue
			}
			out[i] = impossible
		case vram.EventFree:
			switch {
			case !taken:
				out[i] = atOnce
			case now == vram.BlockLive:
				out[i] = impossible
				continue
			}
			state[e.Address] = vram.BlockLive
		case vram.EventReady:
			if taken {
				out[i] = impossible
				continue
			}
			state[e.Address] = vram.BlockPending
		}
	}
	return out
}
