package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/vram"
)

// What a cell of the map mostly is: free, pending, or a purpose from firstPurpose on.
const (
	stateFree = iota
	statePending
	firstPurpose
)

// memoryDocument is the answer of api/memory: the pools, and the map of one.
type memoryDocument struct {
	States []string    `json:"states"`
	Pools  []poolState `json:"pools"`
	Map    *memoryMap  `json:"map"` // null: there is no pool
}

type poolState struct {
	Pool   int64  `json:"pool"`
	Device string `json:"device"`
	Source string `json:"source"` // of another allocator; empty: a pool of Pinion's
	totals
}

// totals are what a pool has in all.
type totals struct {
	ReservedBytes   int64 `json:"reserved_bytes"`
	AllocatedBytes  int64 `json:"allocated_bytes"`
	RequestedBytes  int64 `json:"requested_bytes"`
	FreeBytes       int64 `json:"free_bytes"`
	FragmentedBytes int64 `json:"fragmented_bytes"`
	Blocks          int64 `json:"blocks"`
}

// memoryMap is a pool's mapped memory between two offsets, in cells of one size.
type memoryMap struct {
	Pool       int64     `json:"pool"`
	MeasuredAt time.Time `json:"measured_at"`
	Bytes      int64     `json:"bytes"` // mapped
	From       int64     `json:"from_bytes"`
	To         int64     `json:"to_bytes"`
	CellBytes  int64     `json:"cell_bytes"`

	// Cells has a byte for each: the lowest 4 bits are what most of it is that is not
	// free, as an index of States; the next 3 how much of it that is, in sevenths; the
	// highest says that a block begins there.
	Cells    []byte         `json:"cells"` // in base64
	Segments []segmentState `json:"segments"`
	More     int            `json:"more_segments"` // that are not in the list
}

type segmentState struct {
	Offset  int64  `json:"offset_bytes"`
	Address string `json:"address"`
	Bytes   int64  `json:"bytes"`
	Blocks  int    `json:"blocks"`
}

// Bounds of what is asked for, and of what is answered.
const (
	maxOffset   = 1 << 50
	maxCells    = 1 << 14
	maxSegments = 512
	maxBlocks   = 64
	maxHolders  = 100
	maxStack    = 16
)

// poolParameter chooses a pool; 0 is the first.
var poolParameter = number{"pool", 0, 1 << 40, 0}

// survey finds the pool that a request asks for, and what it holds. It returns nil if
// there is none at all and none was asked for.
func (s *server) survey(r *http.Request, number int64) (*surveyor, *survey, []*surveyor, error) {
	all, err := s.surveys.look(r.Context())
	if err != nil {
		return nil, nil, nil, err
	}
	i := slices.IndexFunc(all, func(v *surveyor) bool { return number == v.number || number == 0 })
	if i < 0 {
		if number > 0 {
			return nil, nil, all, errNoPool
		}
		return nil, nil, all, nil
	}
	now, err := all[i].get(r.Context())
	return all[i], now, all, err
}

func (s *server) memory(r *http.Request) (any, error) {
	q, err := parse(r, poolParameter, number{"from", 0, maxOffset, 0}, number{"to", 0, maxOffset, maxOffset}, number{"cells", 1, maxCells, 4096})
	if err != nil {
		return nil, err
	}
	one, now, all, err := s.survey(r, q["pool"])
	if err != nil {
		return nil, err
	}
	d := memoryDocument{States: new(survey).states(), Pools: []poolState{}}
	for _, v := range all {
		// The others as of when they were surveyed, so that none is held up.
		v.mu.Lock()
		state := poolState{Pool: v.number, Device: clip(v.holder.device()), Source: clip(v.holder.source())}
		if v.last != nil {
			state.totals = v.last.totals
		} else {
			state.ReservedBytes = v.holder.reserved()
		}
		v.mu.Unlock()
		d.Pools = append(d.Pools, state)
	}
	if now != nil {
		d.States = now.states()
		d.Map = now.draw(min(q["from"], now.bytes), min(q["to"], now.bytes), q["cells"])
		d.Map.Pool = one.number
	}
	return d, nil
}

// draw makes the map of what lies between two offsets, in at most so many cells.
func (s *survey) draw(from, to, cells int64) *memoryMap {
	const grain = 512 // bytes; blocks are multiples of it
	to = max(to, from)
	cell := max((to-from+cells-1)/cells, 1)
	cell = (cell + grain - 1) / grain * grain
	n := (to - from + cell - 1) / cell
	m := &memoryMap{MeasuredAt: s.at.UTC(), Bytes: s.bytes, From: from, To: to, CellBytes: cell, Cells: make([]byte, n), Segments: []segmentState{}}

	// Blocks come in order, so that one cell at a time is open.
	open := int64(-1)
	var shares [16]int64 // bytes of the open cell, by state
	shut := func() {
		if open < 0 {
			return
		}
		used, most := int64(0), 0
		for state, bytes := range shares {
			if state != stateFree && bytes > 0 {
				used += bytes
				if most == stateFree || bytes > shares[most] {
					most = state
				}
			}
		}
		size := min(cell, to-from-open*cell)
		m.Cells[open] |= byte(most) | byte((used*7+size-1)/size)<<4
		shares = [16]int64{}
	}
	s.each(from, to, func(i int, offset int64) {
		b := &s.blocks[i]
		state := s.stateOf(b)
		begin, end := max(offset, from)-from, min(offset+b.Bytes, to)-from
		if state != stateFree && offset >= from {
			m.Cells[begin/cell] |= 0x80
		}
		for at := begin; at < end; {
			c := at / cell
			if c != open {
				shut()
				open = c
			}
			next := min((c+1)*cell, end)
			shares[state] += next - at
			at = next
		}
	})
	shut()

	for _, g := range s.segments {
		if g.offset+g.bytes <= from || g.offset >= to {
			continue
		}
		if len(m.Segments) == maxSegments {
			m.More++
			continue
		}
		m.Segments = append(m.Segments, segmentState{g.offset, fmt.Sprintf("%#x", uint64(g.address)), g.bytes, g.count})
	}
	return m
}

// blocksDocument is the answer of api/blocks: the largest blocks between two offsets.
type blocksDocument struct {
	Pool       int64        `json:"pool"`
	MeasuredAt time.Time    `json:"measured_at"`
	Count      int          `json:"count"` // of all blocks there
	Blocks     []blockState `json:"blocks"`
}

type blockState struct {
	Offset         int64    `json:"offset_bytes"`
	Address        string   `json:"address"`
	Bytes          int64    `json:"bytes"`
	RequestedBytes int64    `json:"requested_bytes"`
	State          string   `json:"state"` // "live", "pending" or "free"
	Purpose        string   `json:"purpose"`
	Name           string   `json:"name"`
	Stream         int32    `json:"stream"`
	AgeSeconds     *float64 `json:"age_seconds"` // null: not known
	Stack          []string `json:"stack"`       // empty: it was not recorded
}

func (s *server) blocks(r *http.Request) (any, error) {
	q, err := parse(r, poolParameter, number{"from", 0, maxOffset, 0}, number{"to", 0, maxOffset, maxOffset}, number{"limit", 1, maxBlocks, 8})
	if err != nil {
		return nil, err
	}
	one, now, _, err := s.survey(r, q["pool"])
	if err != nil {
		return nil, err
	}
	d := blocksDocument{Blocks: []blockState{}}
	if now == nil {
		return d, nil
	}
	d.Pool, d.MeasuredAt = one.number, now.at.UTC()
	type found struct {
		*vram.BlockInfo
		index  int
		offset int64
	}
	var list []found // the largest so far, in order
	limit := int(q["limit"])
	now.each(q["from"], q["to"], func(index int, offset int64) {
		b := &now.blocks[index]
		d.Count++
		if len(list) == limit {
			if b.Bytes <= list[limit-1].Bytes {
				return
			}
			list = list[:limit-1]
		}
		i, _ := slices.BinarySearchFunc(list, b.Bytes, func(x found, bytes int64) int { return cmp.Compare(bytes, x.Bytes+1) })
		for i < len(list) && list[i].Bytes == b.Bytes {
			i++ // behind those that came before
		}
		list = slices.Insert(list, i, found{b, index, offset})
	})
	for _, b := range list {
		state := blockState{Offset: b.offset, Address: fmt.Sprintf("%#x", uint64(b.Address)), Bytes: b.Bytes, State: "free", Stack: []string{}}
		if b.State != vram.BlockFree {
			state.State = "live"
			if b.State == vram.BlockPending {
				state.State = "pending"
			}
			state.RequestedBytes, state.Purpose, state.Name, state.Stream = b.Requested, now.purpose(b.BlockInfo), clip(b.Name), b.Stream
			state.AgeSeconds, state.Stack = now.since(b.Since), now.stack(b.index)
		}
		d.Blocks = append(d.Blocks, state)
	}
	return d, nil
}

// since is how many seconds ago something was; nil: not known.
func (s *survey) since(at time.Duration) *float64 {
	if s.age == nil {
		return nil
	}
	seconds := max(*s.age-at, 0).Seconds()
	return &seconds
}

// frames prints a stack, the innermost call first.
func frames(stack vram.Stack) []string {
	list := []string{}
	if len(stack) == 0 {
		return list
	}
	all := runtime.CallersFrames(stack)
	for more := true; more && len(list) < maxStack; {
		var f runtime.Frame
		if f, more = all.Next(); f.Function != "" {
			list = append(list, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
		}
	}
	return list
}

// clip bounds a name, which may be anything.
func clip(name string) string {
	const most = 200 // bytes
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// holdersDocument is the answer of api/holders: who holds the most.
type holdersDocument struct {
	Pool       int64         `json:"pool"`
	MeasuredAt time.Time     `json:"measured_at"`
	Count      int           `json:"count"` // of all purposes and names
	Holders    []holderState `json:"holders"`
}

type holderState struct {
	Purpose        string   `json:"purpose"`
	Name           string   `json:"name"` // # stands for numbers that differ
	Blocks         int64    `json:"blocks"`
	AllocatedBytes int64    `json:"allocated_bytes"`
	RequestedBytes int64    `json:"requested_bytes"`
	OldestSeconds  *float64 `json:"oldest_seconds"` // null: not known
	Stack          []string `json:"stack"`          // of the largest block that has one
}

func (s *server) holders(r *http.Request) (any, error) {
	q, err := parse(r, poolParameter, number{"limit", 1, maxHolders, 10})
	if err != nil {
		return nil, err
	}
	one, now, _, err := s.survey(r, q["pool"])
	if err != nil {
		return nil, err
	}
	d := holdersDocument{Holders: []holderState{}}
	if now == nil {
		return d, nil
	}
	d.Pool, d.MeasuredAt = one.number, now.at.UTC()
	now.summed.Do(func() { now.sums = now.holders() })
	d.Count, d.Holders = len(now.sums), now.sums[:min(len(now.sums), int(q["limit"]))]
	return d, nil
}

// holders are the purposes and names that hold the most. Names that differ in their
// numbers alone count as one. The stacks are those of the first maxHolders.
func (s *survey) holders() []holderState {
	type key struct {
		purpose vram.Purpose
		pattern string
	}
	type sum struct {
		holderState
		oldest  time.Duration
		largest int64
		block   int // that has a stack; -1: none
	}
	sums := map[key]*sum{}
	patterns := map[string]string{} // by name
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.State != vram.BlockLive {
			continue
		}
		pattern, there := patterns[b.Name]
		if !there {
			pattern = clip(b.Name)
			if s.source == "" { // others' names are lines of code
				pattern = digits.ReplaceAllString(pattern, "#")
			}
			patterns[b.Name] = pattern
		}
		k := key{b.Purpose, pattern}
		h := sums[k]
		if h == nil {
			h = &sum{holderState: holderState{Purpose: s.purpose(b), Name: clip(b.Name)}, oldest: b.Since, block: -1}
			sums[k] = h
		} else if h.Name != pattern && h.Name != clip(b.Name) {
			h.Name = pattern
		}
		h.Blocks++
		h.AllocatedBytes += b.Bytes
		h.RequestedBytes += b.Requested
		h.oldest = min(h.oldest, b.Since)
		if b.Bytes > h.largest && s.hasStack(i) {
			h.largest, h.block = b.Bytes, i
		}
	}
	list := slices.SortedFunc(maps.Values(sums), func(a, b *sum) int {
		return cmp.Or(cmp.Compare(b.AllocatedBytes, a.AllocatedBytes), cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Name, b.Name))
	})
	out := []holderState{}
	for i, h := range list {
		h.OldestSeconds, h.Stack = s.since(h.oldest), []string{}
		if i < maxHolders && h.block >= 0 {
			h.Stack = s.stack(h.block)
		}
		out = append(out, h.holderState)
	}
	return out
}

// digits are what names of a kind differ in.
var digits = regexp.MustCompile("[0-9]+")
