package leaks

import (
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/vram"
)

// A watch looks at the end of each generation, which is a number of steps. When
// there are most generations, two become one, so that what a watch costs and keeps
// grows with the logarithm of the steps.
const (
	most   = 32
	fewest = most / 2 // and before the first merge, before anything is judged
)

// Options tune a watch. The zero value suits most programs.
type Options struct {
	// NoStacks leaves out where memory was allocated, which costs each allocation
	// about a microsecond while the watch runs. Leaks are then told apart by device,
	// purpose and name alone. Default: stacks are noted.
	NoStacks bool
}

// Watch looks for leaks while a program takes steps. Its methods are safe for
// concurrent use.
type Watch struct {
	stop func()            // wants no more stacks
	list func(func(*seen)) // what there is; tests have models of it

	mu     sync.Mutex
	steps  int64
	length int64           // steps in a generation
	ends   []time.Time     // of generations
	items  map[key]*item   // that were there at the last look
	sites  map[place]*site // of them, and of those that went
	looks  int
	text   []byte           // of goroutines, used again
	blocks []vram.BlockInfo // of a pool, used again
	before []Cache
}

// item is something that was there at the last look.
type item struct {
	site  *site // nil: somebody else reports it
	name  string
	bytes int64
	born  int // generation; beforehand for what was there when the watch began
	look  int // the last one that saw it
}

const beforehand = -1

// site is where items come from.
type site struct {
	place
	frames []Frame
	items  int
	deaths [most]int // by generation, of items that were there for two generations or more
}

// Start begins a watch. The program calls Step after each of its steps, and Stop in
// the end.
func Start(o Options) *Watch {
	w := &Watch{stop: func() {}}
	if !o.NoStacks {
		w.stop = callstack.Want()
	}
	w.list = w.listAll
	w.begin()
	return w
}

func (w *Watch) begin() {
	w.length, w.items, w.sites = 1, map[key]*item{}, map[place]*site{}
	w.before = caches()
	w.look(beforehand)
}

// Stop ends the watch; its report stays. A second Stop does nothing.
func (w *Watch) Stop() { w.stop() }

// Step says that a step of the program is done: a training step, a request, or a
// second of a server. Most calls only count.
func (w *Watch) Step() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	if w.steps%w.length != 0 {
		return
	}
	w.look(len(w.ends))
	w.ends = append(w.ends, time.Now())
	if len(w.ends) == most {
		w.merge()
	}
}

// look brings items up to date, at the end of a generation.
func (w *Watch) look(generation int) {
	w.looks++
	w.list(func(x *seen) {
		i := w.items[x.key]
		if i == nil {
			i = &item{site: w.site(x), name: x.name, bytes: x.bytes, born: generation}
			w.items[x.key] = i
			if i.site != nil {
				i.site.items++
			}
		}
		i.look = w.looks
	})
	for k, i := range w.items {
		if i.look == w.looks {
			continue
		}
		delete(w.items, k)
		if s := i.site; s != nil {
			s.items--
			if generation-i.born >= 2 {
				s.deaths[generation]++
			}
		}
	}
}

// site returns where an item that is new comes from. It is nil for memory that a
// tier store moves its arrays through: the arrays are listed themselves.
func (w *Watch) site(x *seen) *site {
	at := x.place()
	if s, ok := w.sites[at]; ok {
		return s
	}
	s := &site{frames: memoryFrames(x.stack)}
	if x.kind == Goroutine {
		s.frames = goroutineFrames(x.created)
	}
	if x.kind != Tier && len(s.frames) > 0 && strings.HasPrefix(s.frames[0].Function, module+"tier.") {
		s = nil
	}
	at.stack = strings.Clone(at.stack) // it lies in memory of the block
	if s != nil {
		s.place = at
	}
	w.sites[at] = s
	return s
}

const module = "github.com/pinion-gpu/pinion/"

// merge makes one generation of every two.
func (w *Watch) merge() {
	w.length *= 2
	for i := range fewest {
		w.ends[i] = w.ends[2*i+1]
	}
	w.ends = w.ends[:fewest]
	for _, i := range w.items {
		if i.born != beforehand {
			i.born /= 2
		}
	}
	for at, s := range w.sites {
		if s == nil {
			continue
		}
		died := 0
		for i := range fewest {
			s.deaths[i] = s.deaths[2*i] + s.deaths[2*i+1]
			died += s.deaths[i]
		}
		clear(s.deaths[fewest:])
		if s.items == 0 && died == 0 {
			delete(w.sites, at)
		}
	}
}
