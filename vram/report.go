package vram

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Report is what a user reads after a failed job: what was asked for, where the
// memory is, who holds it, and what would have helped. It has several lines and
// ends with a line feed.
func (e *OutOfMemoryError) Report() string {
	s := e.Stats
	var t strings.Builder
	fmt.Fprintf(&t, "out of memory on %s: %s for %s\n", e.Device, sizeText(e.Asked), holderText(e.Purpose, e.Name))
	if e.cause != nil {
		fmt.Fprintf(&t, "because of: %v\n", e.cause)
	}
	t.WriteByte('\n')
	budget := "no budget"
	if s.Budget > 0 {
		budget = "budget " + sizeText(s.Budget)
	}
	rows := [][]string{
		{"live", fmt.Sprintf("%s in %d blocks", sizeText(s.Allocated.Current), s.Blocks.Current)},
		{"reserved", fmt.Sprintf("%s, %s", sizeText(s.Reserved.Current), budget)},
		{"free", fmt.Sprintf("%s of that, the largest piece %s, %s stuck", sizeText(s.Free), sizeText(s.LargestFree), sizeText(s.Stuck))},
		{"fragmentation", s.fragmentationText()},
	}
	if n := e.pending(); n > 0 {
		rows = append(rows, []string{"pending", fmt.Sprintf("%s freed, but still in use by streams", sizeText(n))})
	}
	if m := e.Memory; m.TotalBytes > 0 {
		rows = append(rows, []string{"device", fmt.Sprintf("%s of %s left, %s with other programs and the driver",
			sizeText(m.FreeBytes), sizeText(m.TotalBytes), sizeText(e.others()))})
	}
	writeTable(&t, 2, rows)

	rows = [][]string{{"live by purpose", "bytes", "peak"}}
	for i, p := range s.Purposes {
		if p.Allocated.Current != 0 {
			rows = append(rows, []string{"  " + Purpose(i).String(), sizeText(p.Allocated.Current), sizeText(p.Allocated.Peak)})
		}
	}
	if len(rows) > 1 {
		t.WriteByte('\n')
		writeTable(&t, 1, rows)
	}
	if len(e.Holders) > 0 {
		rows = [][]string{{"top holders", "bytes", "blocks"}}
		for _, h := range e.Holders {
			rows = append(rows, []string{"  " + holderText(h.Purpose, h.Name), sizeText(h.Allocated), number(h.Blocks)})
		}
		t.WriteByte('\n')
		writeTable(&t, 1, rows)
	}
	if len(e.Advice) > 0 {
		t.WriteString("\nwhat would have helped\n")
		for _, line := range e.Advice {
			fmt.Fprintf(&t, "  - %s\n", line)
		}
	}
	return t.String()
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

// others is what the device has given to anybody else.
func (e *OutOfMemoryError) others() int64 {
	return max(e.Memory.TotalBytes-e.Memory.FreeBytes-e.Stats.Reserved.Current, 0)
}

// remedies are what makes memory of a purpose less.
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

// advise says what would have helped, from the numbers in e, which must be
// filled in but for Advice. Every sentence is true of them; there may be none.
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
		say("The live %s and the %s asked for exceed %s, %s, by %s: use a smaller batch, spill or checkpoint.",
			sizeText(s.Allocated.Current), sizeText(e.Asked), whose, sizeText(capacity), sizeText(short))
		if n := e.others(); !budget && n >= short {
			say("Other programs and the driver hold %s of the device's %s.", sizeText(n), sizeText(e.Memory.TotalBytes))
		}
	} else {
		if n := e.pending(); n > 0 {
			say("%s are freed but still in use by streams: they come back when that work is done.", sizeText(n))
		}
		if why := e.stuck(asked, max(capacity-s.Reserved.Current, 0)); why != "" {
			say("%s", why)
		}
	}
	if left := e.Memory.FreeBytes; budget && left > 0 && s.Reserved.Current+asked > s.Budget {
		more := "raise Options.Budget"
		if need > device {
			more = "a larger Options.Budget would help, but not be enough"
		}
		say("The budget of %s is the limit, while the device has %s left: %s.", sizeText(s.Budget), sizeText(left), more)
	}
	return append(out, e.adviseHolders(e.Holders)...)
}

// stuck says that what is free would do, if it were not in pieces. The pool
// could take room more bytes from the device.
func (e *OutOfMemoryError) stuck(asked, room int64) string {
	s := e.Stats
	usable := s.Free - s.Stuck + room
	if s.ChunkBytes == 0 {
		usable = max(s.LargestFree, room) // segments cannot be joined
	}
	if usable >= asked || s.Free+room < asked {
		return ""
	}
	free := sizeText(s.Free) + " are free"
	if s.Free < asked {
		free += fmt.Sprintf(" and the pool may take %s more", sizeText(room))
	}
	if s.ChunkBytes == 0 {
		return fmt.Sprintf("%s, which is enough, but in segments, with %s as the largest piece: set Options.Source to SourceChunks, where the device has virtual memory.",
			free, sizeText(s.LargestFree))
	}
	return fmt.Sprintf("%s, which is enough, but %s are stuck in chunks that live blocks have a part of: set Options.ChunkBytes to less than %s.",
		free, sizeText(s.Stuck), sizeText(s.ChunkBytes))
}

// adviseLimit is the advice where the limit of the purpose is the reason.
func (e *OutOfMemoryError) adviseLimit() []string {
	if e.Purpose >= purposes {
		return nil
	}
	var out []string
	p := e.Stats.Purposes[e.Purpose]
	if over := p.Allocated.Current + roundUp(e.Asked) - p.Limit; over > 0 {
		out = append(out, fmt.Sprintf("The limit of %v is %s, and %s are live: the %s asked for are %s too much. Raise Options.Limits, or %s.",
			e.Purpose, sizeText(p.Limit), sizeText(p.Allocated.Current), sizeText(e.Asked), sizeText(over), remedies[e.Purpose]))
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
	return []string{fmt.Sprintf("The largest holder is %s with %s in %d blocks: %s.",
		holderText(most.Purpose, most.Name), sizeText(most.Allocated), most.Blocks, remedies[most.Purpose])}
}
