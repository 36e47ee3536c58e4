package leaks

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/vram"
)

// The kinds of what can leak.
const (
	VRAM      = "vram"      // a block of device memory
	Pinned    = "pinned"    // a buffer of pinned memory, or memory of a caller's own that is registered
	Tier      = "tier"      // an array of a tier store, or a lease that was taken while the watch notes stacks
	Goroutine = "goroutine" // a goroutine
)

// ErrLeak is what [Report.Err] wraps.
var ErrLeak = errors.New("something leaks")

// Report says what steps left behind.
type Report struct {
	MeasuredAt  time.Time `json:"measured_at"`
	Steps       int64     `json:"steps"`        // up to the latest look
	WindowSteps int64     `json:"window_steps"` // of these the latest, which are judged; 0 where the steps are too few
	Seconds     float64   `json:"seconds"`      // that the window took

	// Leaks are sites that leave something behind all the time, those of the most
	// bytes a step first.
	Leaks []Site `json:"leaks"`

	// Others are sites whose items came during the window and are still there, but
	// not because of a leak: caches that fill, queues, what the latest steps use. They
	// are the largest, most bytes first, ten at most.
	Others []Site `json:"others"`

	// Caches are what pools keep for reuse.
	Caches []Cache `json:"caches"`
}

// Site is where something was allocated or started: one kind, device, purpose, name
// and stack.
type Site struct {
	Kind    string `json:"kind"` // VRAM, Pinned, Tier or Goroutine
	Device  string `json:"device,omitempty"`
	Purpose string `json:"purpose,omitempty"` // of device memory; "registered" for memory that a caller had pinned; "lease" for one of a tier store
	Name    string `json:"name,omitempty"`    // of the block, the array or the pool of pinned memory; # stands for a number that differs

	// What came in the window and is still there.
	LeftItems    int64   `json:"left_items"`
	LeftBytes    int64   `json:"left_bytes"` // as asked for; none of goroutines
	ItemsPerStep float64 `json:"items_per_step"`
	BytesPerStep float64 `json:"bytes_per_step"`

	// All that is there.
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"`

	// Stack is where items were allocated, the innermost frame first; of goroutines
	// the function that runs, and where it was started. It is empty where nobody
	// noted it.
	Stack []Frame `json:"stack"`
}

// Frame is one call of a stack.
type Frame struct {
	Function string `json:"function"` // with the path of its package
	File     string `json:"file"`
	Line     int    `json:"line"`
}

// Cache is what the pools of a device keep: memory that is reserved and not in use is
// there for the next allocation. It is not leaked: Trim gives it back.
type Cache struct {
	Kind   string `json:"kind"` // VRAM or Pinned
	Device string `json:"device"`

	ReservedBytes int64 `json:"reserved_bytes"`
	ActiveBytes   int64 `json:"active_bytes"`  // handed out
	PendingBytes  int64 `json:"pending_bytes"` // freed, and perhaps still in use by a stream
	FreeBytes     int64 `json:"free_bytes"`    // ready for reuse
	GrownBytes    int64 `json:"grown_bytes"`   // more reserved than when the watch began
}

// caches lists the pools of this process, added up by device.
func caches() []Cache {
	list := []Cache{}
	add := func(c Cache) {
		i := slices.IndexFunc(list, func(x Cache) bool { return x.Kind == c.Kind && x.Device == c.Device })
		if i < 0 {
			list = append(list, c)
			return
		}
		list[i].ReservedBytes += c.ReservedBytes
		list[i].ActiveBytes += c.ActiveBytes
		list[i].PendingBytes += c.PendingBytes
		list[i].FreeBytes += c.FreeBytes
	}
	live.View(func(pools []*vram.Pool) {
		for _, p := range pools {
			s := p.Stats()
			add(Cache{
				Kind: VRAM, Device: p.Device().Info().ID, ReservedBytes: s.Reserved.Current, ActiveBytes: s.Allocated.Current,
				PendingBytes: s.Active.Current - s.Allocated.Current, FreeBytes: s.Free,
			})
		}
	})
	live.View(func(pools []*pinned.Pool) {
		for _, p := range pools {
			s := p.Stats()
			add(Cache{
				Kind: Pinned, Device: s.Device, ReservedBytes: s.ReservedBytes, ActiveBytes: s.ActiveBytes,
				PendingBytes: s.PendingBytes, FreeBytes: s.FreeBytes,
			})
		}
	})
	slices.SortFunc(list, func(a, b Cache) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Device, b.Device))
	})
	return list
}

// Report says what the steps so far left behind, as of the end of the latest
// generation of steps: the more steps, the more lie between two looks, up to a
// sixteenth of all. It may be called at any time.
func (w *Watch) Report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.ends)
	r := Report{
		MeasuredAt: time.Now().UTC(), Steps: int64(n) * w.length,
		Leaks: []Site{}, Others: []Site{}, Caches: caches(),
	}
	for i, c := range r.Caches {
		r.Caches[i].GrownBytes = c.ReservedBytes
		for _, b := range w.before {
			if b.Kind == c.Kind && b.Device == c.Device {
				r.Caches[i].GrownBytes -= b.ReservedBytes
			}
		}
	}
	if n < fewest {
		return r
	}
	first := warmup(n)
	r.WindowSteps = int64(n-first) * w.length
	r.Seconds = w.ends[n-1].Sub(w.ends[first-1]).Seconds()

	type tally struct {
		Site
		cohorts
		steady int64 // bytes and items that came before the last quarter
		count  int64
		names  map[string]bool
	}
	last := n - n/4
	tallies := map[*site]*tally{}
	for _, i := range w.items {
		if i.site == nil {
			continue
		}
		t := tallies[i.site]
		if t == nil {
			t = &tally{cohorts: cohorts{left: make([]int, n), deaths: i.site.deaths[:n]}, names: map[string]bool{}}
			tallies[i.site] = t
		}
		t.Items++
		t.Bytes += i.bytes
		if i.born < 0 {
			continue
		}
		t.left[i.born]++
		if i.born < first {
			continue
		}
		t.LeftItems++
		t.LeftBytes += i.bytes
		t.names[i.name] = true
		if i.born < last {
			t.count++
			t.steady += i.bytes
		}
	}
	for s, t := range tallies {
		if t.LeftItems == 0 {
			continue
		}
		t.Kind, t.Device, t.Purpose, t.Name, t.Stack = s.kind, s.device, s.purpose, s.name, s.frames
		if len(t.names) == 1 {
			for t.Name = range t.names {
			}
		}
		if t.Stack == nil {
			t.Stack = []Frame{}
		}
		// The latest items may go yet: they do not count for the rate.
		steps := float64(int64(last-first) * w.length)
		t.ItemsPerStep, t.BytesPerStep = float64(t.count)/steps, float64(t.steady)/steps
		if t.leak() {
			r.Leaks = append(r.Leaks, t.Site)
		} else if s.kind != Goroutine || t.LeftItems > 1 {
			r.Others = append(r.Others, t.Site)
		}
	}
	order := func(a, b Site) int {
		return cmp.Or(cmp.Compare(b.BytesPerStep, a.BytesPerStep), cmp.Compare(b.ItemsPerStep, a.ItemsPerStep),
			cmp.Compare(b.LeftBytes, a.LeftBytes), strings.Compare(a.title(), b.title()), strings.Compare(a.Where(), b.Where()))
	}
	slices.SortFunc(r.Leaks, order)
	slices.SortFunc(r.Others, func(a, b Site) int { return cmp.Or(cmp.Compare(b.LeftBytes, a.LeftBytes), order(a, b)) })
	r.Others = r.Others[:min(len(r.Others), 10)]
	return r
}
