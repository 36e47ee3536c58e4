package timeline

import (
	"maps"
	"sync"

	"github.com/pinion-gpu/pinion/internal/probe"
)

// row is a row of the host, whose newest records it keeps for a moment: those who tell
// of spans share no lock with other rows.
type row struct {
	r  *Recording
	id int32

	mu    sync.Mutex
	names map[string]int32 // those of the store that were used here
	list  []record
}

// rowRecords is how many records a row keeps until the store has them. It has them
// after [Options].Every, too.
const rowRecords = 64

// mostRows is how many rows of the host there are. More share one.
const mostRows = 1 << 10

// rowOf finds a row, or makes it.
func (r *Recording) rowOf(key probe.Row) *row {
	if x, ok := (*r.rows.Load())[key]; ok {
		return x
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := *r.rows.Load()
	if x, ok := rows[key]; ok {
		return x
	}
	if len(rows) >= mostRows {
		key = probe.Row{Group: "others", Name: "others"}
		if x, ok := rows[key]; ok {
			return x
		}
	}
	x := &row{r: r, id: r.store.row(key.Group, key.Name), names: map[string]int32{}}
	rows = maps.Clone(rows) // readers have no lock
	rows[key] = x
	r.rows.Store(&rows)
	return x
}

// Short spans of a row and a batch that have one name and follow each other closely are
// one: samples of a few microseconds would else fill the store within seconds. No span
// becomes longer than longestMerged for that.
const (
	shortSpan     = 100_000 // nanoseconds
	closeTogether = 10_000
	longestMerged = 1_000_000
)

// span adds a span of that name, or makes the newest one longer.
func (w *row) span(name string, x record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id, ok := w.names[name]
	if !ok {
		if len(w.names) == mostNames {
			clear(w.names)
		}
		id = w.r.name(name)
		w.names[name] = id
	}
	x.kind, x.row, x.name = kindSpan, w.id, id
	if n := len(w.list); n > 0 {
		old := &w.list[n-1]
		if old.kind == kindSpan && old.name == id && old.batch == x.batch &&
			x.end-x.start < shortSpan && x.start >= old.end && x.start-old.end < closeTogether && x.end-old.start < longestMerged {
			old.end = x.end
			old.count += x.count
			old.bytes += x.bytes
			old.read += x.read
			old.decode += x.decode
			old.resize += x.resize
			return
		}
	}
	w.add(x)
}

// put adds a record of this row as it is.
func (w *row) put(x record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(x)
}

// add adds a record. The caller holds mu.
func (w *row) add(x record) {
	if len(w.list) == rowRecords {
		w.flush()
	}
	w.list = append(w.list, x)
}

// flush gives what there is to the store. The caller holds mu.
func (w *row) flush() {
	w.r.put(w.list...)
	w.list = w.list[:0]
}

// flush gives what rows keep to the store.
func (r *Recording) flush() {
	for _, w := range *r.rows.Load() {
		w.mu.Lock()
		if len(w.list) > 0 {
			w.flush()
		}
		w.mu.Unlock()
	}
}
