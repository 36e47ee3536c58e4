package vram

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Report explains the failure to a user: what was asked for, where the memory
// is, who holds it, and what would have helped. It has several lines and ends
// with a line feed.
func (e *OutOfMemoryError) Report() string {
	s := e.Stats
	var text strings.Builder
	fmt.Fprintf(&text, "out of memory on %s: %s for %s\n", e.Device, units.Bytes(e.Asked), holderText(e.Purpose, e.Name))
	if e.cause != nil {
		fmt.Fprintf(&text, "cause: %v\n", e.cause)
	}
	budget := "no budget"
	if s.Budget > 0 {
		budget = "budget " + units.Bytes(s.Budget)
	}
	state := texttable.New("", "")
	state.Add("allocated", fmt.Sprintf("%s in %s", units.Bytes(s.Allocated.Current), units.Count(s.Blocks.Current, "block")))
	state.Add("reserved", fmt.Sprintf("%s, %s", units.Bytes(s.Reserved.Current), budget))
	state.Add("free", fmt.Sprintf("%s of that, largest block %s, fragmented %s", units.Bytes(s.Free), units.Bytes(s.LargestFree), units.Bytes(s.Fragmented)))
	state.Add("fragmentation", s.fragmentationText())
	if n := e.pending(); n > 0 {
		state.Add("pending", units.Bytes(n)+" freed, but still in use by streams")
	}
	if m := e.Memory; m.TotalBytes > 0 {
		state.Add("device", fmt.Sprintf("%s of %s left, %s used by other programs and the driver",
			units.Bytes(m.FreeBytes), units.Bytes(m.TotalBytes), units.Bytes(e.others())))
	}
	text.WriteString("\n" + state.String())

	purposes, used := texttable.New("by purpose", ">allocated", ">peak"), false
	for i, p := range s.Purposes {
		if p.Allocated.Current != 0 {
			purposes.Add("  "+Purpose(i).String(), units.Bytes(p.Allocated.Current), units.Bytes(p.Allocated.Peak))
			used = true
		}
	}
	if used {
		text.WriteString("\n" + purposes.String())
	}
	if len(e.Holders) > 0 {
		holders := texttable.New("largest holders", ">allocated", ">blocks")
		for _, h := range e.Holders {
			holders.Add("  "+holderText(h.Purpose, h.Name), units.Bytes(h.Allocated), number(h.Blocks))
		}
		text.WriteString("\n" + holders.String())
	}
	if len(e.Advice) > 0 {
		text.WriteString("\nwhat would have helped\n")
		for _, line := range e.Advice {
			fmt.Fprintf(&text, "  - %s\n", line)
		}
	}
	return text.String()
}

// holderText names memory.
func holderText(p Purpose, name string) string {
	if name == "" {
		return p.String()
	}
	return p.String() + " " + strconv.Quote(name)
}

// pending is what is freed and still in use.
func (e *OutOfMemoryError) pending() int64 {
	return max(e.Stats.Active.Current-e.Stats.Allocated.Current, 0)
}

// others is what other programs and the driver have of the device.
func (e *OutOfMemoryError) others() int64 {
	return max(e.Memory.TotalBytes-e.Memory.FreeBytes-e.Stats.Reserved.Current, 0)
}

// remedies say how to need less memory of a purpose.
var remedies = [purposes]string{
	Weights:     "shard or spill them, or use a smaller data type",
	Gradients:   "shard them, or accumulate over smaller batches",
	Optimizer:   "spill its state to the host, or shard it",
	Activations: "use a smaller batch, checkpoint (recompute) some, or spill them",
	Batch:       "use a smaller batch, or fewer batches ahead",
	KVCache:     "run fewer or shorter sequences at a time, or swap them out",
	Workspace:   "choose algorithms that need less of it",
	Staging:     "copy less at a time",
	Other:       "give it a purpose to see what it is",
}

// advise says what would have helped, judging by the numbers in e, all of which
// but Advice are filled in. There may be nothing to say.
func (e *OutOfMemoryError) advise() []string {
	if errors.Is(e.cause, ErrLimit) {
		return e.adviseLimit()
	}
	s := e.Stats
	asked := roundUp(e.Asked)
	need := s.Allocated.Current + asked
	device := s.Reserved.Current + e.Memory.FreeBytes // all that the pool could have
	budget := s.Budget > 0 && (s.Budget < device || e.Memory.TotalBytes == 0)
	if !budget && e.Memory.TotalBytes == 0 {
		return e.adviseHolders(e.Holders)
	}
	capacity, whose := device, "what the device has for this pool"
	if budget {
		capacity, whose = s.Budget, "the budget"
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if short := need - capacity; short > 0 {
		say("The %s allocated and the %s asked for exceed %s (%s) by %s: use a smaller batch, spill or checkpoint.",
			units.Bytes(s.Allocated.Current), units.Bytes(e.Asked), whose, units.Bytes(capacity), units.Bytes(short))
		if n := e.others(); !budget && n >= short {
			say("Other programs and the driver hold %s of the device's %s.", units.Bytes(n), units.Bytes(e.Memory.TotalBytes))
		}
	} else {
		if n := e.pending(); n > 0 {
			say("%s is freed but still in use by streams: it becomes free when that work is done.", units.Bytes(n))
		}
		if why := e.fragmented(asked, max(capacity-s.Reserved.Current, 0)); why != "" {
			say("%s", why)
		}
	}
	if left := e.Memory.FreeBytes; budget && left > 0 && s.Reserved.Current+asked > s.Budget {
		more := "raise Options.Budget"
		if need > device {
			more = "a larger Options.Budget would help, but is not enough"
		}
		say("The budget of %s is the limit, while the device has %s left: %s.", units.Bytes(s.Budget), units.Bytes(left), more)
	}
	return append(out, e.adviseHolders(e.Holders)...)
}

// fragmented says that the free memory would be enough if it were not in pieces.
// The pool could take room more bytes from the device.
func (e *OutOfMemoryError) fragmented(asked, room int64) string {
	s := e.Stats
	rest := int64(0) // of room, that is no chunk
	if s.ChunkUnit > 0 {
		rest = room % s.ChunkUnit
	}
	usable := s.Free - s.Fragmented + room - rest
	if s.ChunkBytes == 0 {
		usable = max(s.LargestFree, room) // segments cannot be joined
	}
	if usable >= asked || s.Free+room < asked {
		return ""
	}
	free := units.Bytes(s.Free) + " is free"
	if s.Free < asked {
		free += fmt.Sprintf(", and the pool may take %s more", units.Bytes(room))
	}
	if s.Free+room-rest < asked {
		return fmt.Sprintf("%s. That is enough, but %s of it is less than a chunk, which has %s at least.",
			free, units.Bytes(rest), units.Bytes(s.ChunkUnit))
	}
	if s.ChunkBytes == 0 {
		return fmt.Sprintf("%s. That is enough, but the largest block is %s: set Options.Source to SourceChunks, if the device has virtual memory.",
			free, units.Bytes(s.LargestFree))
	}
	remedy := "allocate what lives long before the rest, or in larger blocks"
	if s.ChunkBytes > s.ChunkUnit {
		remedy = fmt.Sprintf("set Options.ChunkBytes to %s, the least there is, or ", units.Bytes(s.ChunkUnit)) + remedy
	}
	return fmt.Sprintf("%s. That is enough, but %s of it is in chunks that live blocks share: %s.", free, units.Bytes(s.Fragmented), remedy)
}

// adviseLimit is the advice if the limit of the purpose is the cause.
func (e *OutOfMemoryError) adviseLimit() []string {
	if e.Purpose >= purposes {
		return nil
	}
	var out []string
	p := e.Stats.Purposes[e.Purpose]
	if over := p.Allocated.Current + roundUp(e.Asked) - p.Limit; over > 0 {
		out = append(out, fmt.Sprintf("The limit of %v is %s and %s is allocated: the %s asked for is %s too much. Raise Options.Limits, or %s.",
			e.Purpose, units.Bytes(p.Limit), units.Bytes(p.Allocated.Current), units.Bytes(e.Asked), units.Bytes(over), remedies[e.Purpose]))
	}
	var own []Holder
	for _, h := range e.Holders {
		if h.Purpose == e.Purpose {
			own = append(own, h)
		}
	}
	return append(out, e.adviseHolders(own)...)
}

// adviseHolders names the largest of the holders.
func (e *OutOfMemoryError) adviseHolders(list []Holder) []string {
	if len(list) == 0 {
		return nil
	}
	most := list[0]
	for _, h := range list[1:] {
		if h.Allocated > most.Allocated {
			most = h
		}
	}
	if most.Allocated <= 0 || most.Purpose >= purposes {
		return nil
	}
	return []string{fmt.Sprintf("The largest holder is %s with %s in %s: %s.",
		holderText(most.Purpose, most.Name), units.Bytes(most.Allocated), units.Count(most.Blocks, "block"), remedies[most.Purpose])}
}
