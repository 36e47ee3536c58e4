package vram

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Summary prints the statistics as a table, as torch.cuda.memory_summary does.
// It ends with a line feed.
func (s Stats) Summary() string {
	head := []string{"", ">current", ">peak", ">total allocated", ">total freed"}
	if slices.ContainsFunc(s.Purposes[:], func(p PurposeStats) bool { return p.Limit != 0 && p.Allocated.Allocated != 0 }) {
		head = append(head, ">limit")
	}
	t := texttable.New(head...)
	row := func(name string, a Account, print func(int64) string, more ...string) {
		t.Add(append([]string{name, print(a.Current), print(a.Peak), print(a.Allocated), print(a.Freed)}, more...)...)
	}
	row("requested", s.Requested, units.Bytes)
	row("allocated", s.Allocated, units.Bytes)
	for i, p := range s.Purposes {
		if p.Allocated.Allocated == 0 {
			continue
		}
		var limit []string
		if p.Limit != 0 {
			limit = []string{units.Bytes(p.Limit)}
		}
		row("  "+Purpose(i).String(), p.Allocated, units.Bytes, limit...)
	}
	row("active", s.Active, units.Bytes)
	row("reserved", s.Reserved, units.Bytes)
	t.Add("free", units.Bytes(s.Free))
	t.Add("  fragmented", units.Bytes(s.Fragmented))
	t.Add("  largest block", units.Bytes(s.LargestFree))
	row("blocks", s.Blocks, number)

	chunks, budget := "whole segments", "all of the device"
	if s.ChunkBytes != 0 {
		chunks = units.Bytes(s.ChunkBytes)
	}
	if s.Budget != 0 {
		budget = units.Bytes(s.Budget)
	}
	rest := texttable.New("", "")
	rest.Add("driver calls", fmt.Sprintf("%d: %d create, %d release, %d map, %d unmap",
		s.Calls.Total(), s.Calls.Create, s.Calls.Release, s.Calls.Map, s.Calls.Unmap))
	rest.Add("retries", number(s.Retries))
	rest.Add("out of memory", number(s.OutOfMemory))
	rest.Add("fragmentation", s.fragmentationText())
	rest.Add("chunk size", chunks)
	rest.Add("budget", budget)
	return t.String() + "\n" + rest.String()
}

func (s Stats) fragmentationText() string {
	if s.Reserved.Current <= 0 {
		return "none: nothing is reserved"
	}
	return units.Percent(s.Fragmentation()) + " of reserved"
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
