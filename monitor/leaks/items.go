package leaks

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

// key tells one item from all others that are there at the same time, and from those
// that were there before: memory is reused, but not at the same moment, nor with the
// same serial number.
type key struct {
	owner uintptr // a pool or store; 0 for goroutines
	a, b  int64
}

// seen is an item as a source lists it.
type seen struct {
	key     key
	kind    string
	device  string
	purpose string
	name    string
	bytes   int64
	stack   []uintptr // of memory
	created string    // of a goroutine: the end of its stack
}

// listAll calls f with all that is there: device memory, pinned memory, arrays of
// tiers, and goroutines. f keeps nothing of what it points to. What is opened and
// closed meanwhile waits for none of it.
func (w *Watch) listAll(f func(*seen)) {
	var x seen // one for all: there may be a hundred thousand
	for _, p := range open[vram.Pool]() {
		owner, device := uintptr(unsafe.Pointer(p)), p.Device().Info().ID
		for _, b := range w.blocksOf(p) {
			x = seen{
				key: key{owner, int64(b.Address), int64(b.Since)}, kind: VRAM, device: device,
				purpose: b.Purpose.String(), name: b.Name, bytes: b.Requested, stack: b.Stack,
			}
			f(&x)
		}
	}
	clear(w.blocks[:cap(w.blocks)]) // of names and stacks
	for _, p := range open[pinned.Pool]() {
		owner, s := uintptr(unsafe.Pointer(p)), p.Stats()
		for _, b := range p.Live() {
			x = seen{key: key{owner, b.Serial, 0}, kind: Pinned, device: s.Device, name: s.Name, bytes: b.Bytes, stack: b.Stack}
			if b.Registered {
				x.key.b, x.purpose = 1, "registered"
			}
			f(&x)
		}
	}
	for _, s := range open[tier.Store]() {
		owner, device := uintptr(unsafe.Pointer(s)), s.Device().Info().ID
		for _, a := range s.Live() {
			x = seen{key: key{owner, a.ID, 0}, kind: Tier, device: device, name: a.Name, bytes: a.Bytes, stack: a.Stack}
			f(&x)
		}
		for _, l := range s.Leases() {
			x = seen{key: key{owner, l.ID, 1}, kind: Tier, device: device, purpose: "lease", name: l.Name, bytes: l.Bytes, stack: l.Stack}
			f(&x)
		}
	}
	w.listGoroutines(f)
}

// open lists what is open at the moment.
func open[T any]() (list []*T) {
	live.View(func(all []*T) { list = slices.Clone(all) })
	return list
}

// blocksOf lists the live blocks of a pool, until the next call. The pool is frozen
// only while they are copied to memory that is there already.
func (w *Watch) blocksOf(p *vram.Pool) []vram.BlockInfo {
	if n := p.Stats().Blocks.Current; int64(cap(w.blocks)) < n+n/8 {
		w.blocks = make([]vram.BlockInfo, n+n/4)
		clear(w.blocks) // so that its pages are there
	}
	w.blocks = w.blocks[:0]
	p.Visit(func(b vram.BlockInfo, _ bool) {
		if b.State == vram.BlockLive {
			w.blocks = append(w.blocks, b)
		}
	})
	return w.blocks
}

// listGoroutines reads the traceback of all goroutines, which is the only place that
// tells their numbers and who started them.
func (w *Watch) listGoroutines(f func(*seen)) {
	if w.text == nil {
		w.text = make([]byte, 64<<10)
	}
	n := runtime.Stack(w.text, true)
	for n == len(w.text) {
		w.text = make([]byte, 2*n)
		n = runtime.Stack(w.text, true)
	}
	for one := range bytes.SplitSeq(w.text[:n], []byte("\n\n")) {
		if x, ok := parseGoroutine(one); ok {
			f(&x)
		}
	}
}

// parseGoroutine reads one goroutine of a traceback. The main goroutine, and those
// that the runtime or C started, have no creator and are left out.
func parseGoroutine(text []byte) (seen, bool) {
	rest, ok := bytes.CutPrefix(text, []byte("goroutine "))
	number, rest, found := bytes.Cut(rest, []byte(" "))
	id, err := strconv.ParseInt(string(number), 10, 64)
	at := bytes.LastIndex(rest, []byte("\ncreated by "))
	if !ok || !found || err != nil || at < 0 {
		return seen{}, false
	}
	// The two lines before the creator are the function that was started, unless the
	// goroutine runs at the moment.
	if start := bytes.LastIndexByte(rest[:at], '\n'); start >= 0 && bytes.HasPrefix(rest[start+1:], []byte("\t")) {
		if before := bytes.LastIndexByte(rest[:start], '\n'); before >= 0 && rest[before+1] != '\t' {
			return seen{key: key{a: id}, kind: Goroutine, created: string(rest[before+1:])}, true
		}
	}
	return seen{key: key{a: id}, kind: Goroutine, created: string(rest[at+1:])}, true
}

// goroutineFrames reads the end of a goroutine's stack: the function that was
// started, and where.
func goroutineFrames(created string) (list []Frame) {
	lines := strings.Split(created, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		f := Frame{Function: lines[i]}
		if by, ok := strings.CutPrefix(f.Function, "created by "); ok {
			f.Function, _, _ = strings.Cut(by, " in goroutine ")
		} else if open := strings.LastIndexByte(f.Function, '('); open > 0 {
			f.Function = f.Function[:open] // without its arguments
		}
		place := strings.TrimSpace(lines[i+1])
		place, _, _ = strings.Cut(place, " +0x")
		if colon := strings.LastIndexByte(place, ':'); colon > 0 {
			f.File = place[:colon]
			f.Line, _ = strconv.Atoi(place[colon+1:])
		}
		list = append(list, f)
	}
	return list
}

func memoryFrames(stack []uintptr) (list []Frame) {
	if len(stack) == 0 {
		return nil
	}
	frames := runtime.CallersFrames(stack)
	for {
		f, more := frames.Next()
		if f.Function != "" && f.Function != "runtime.goexit" && f.Function != "runtime.main" {
			list = append(list, Frame{f.Function, f.File, f.Line})
		}
		if !more {
			return list
		}
	}
}

// place is what items have in common that are judged together.
type place struct {
	kind, device, purpose, name string
	stack                       string // program counters as they lie in memory, or the line that starts a goroutine
}

func (x *seen) place() place {
	p := place{kind: x.kind, device: x.device, purpose: x.purpose, name: pattern(x.name)}
	if frames := goroutineFrames(x.created); len(frames) > 0 {
		by := frames[len(frames)-1]
		p.stack = by.File + ":" + strconv.Itoa(by.Line)
	} else if len(x.stack) > 0 {
		p.stack = unsafe.String((*byte)(unsafe.Pointer(&x.stack[0])), len(x.stack)*int(unsafe.Sizeof(x.stack[0])))
	}
	return p
}

// pattern is a name with its numbers left out: names that count up, such as "step
// 17", belong together.
func pattern(name string) string {
	if !strings.ContainsAny(name, "0123456789") {
		return name
	}
	var b strings.Builder
	for i, c := range []byte(name) {
		digit := c >= '0' && c <= '9'
		switch {
		case !digit:
			b.WriteByte(c)
		case i == 0 || name[i-1] < '0' || name[i-1] > '9':
			b.WriteByte('#')
		}
	}
	return b.String()
}
