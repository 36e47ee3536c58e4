package timeline

import (
	"slices"

	"github.com/pinion-gpu/pinion/internal/probe"
)

// store is the memory of a recording: records in chunks, of which the oldest is
// written anew when there are as many as there may be.
type store struct {
	chunks  []*chunk // in the order in which they were begun
	most    int      // chunks
	begun   int64    // number of the first chunk, counted from the start
	dropped int64    // records that are gone

	rows   table[rowKey]
	names  table[string]
	latest []int64 // number of the newest record of each row
}

// chunkRecords makes a chunk about 300 KiB.
const chunkRecords = 4096

type chunk struct {
	records [chunkRecords]record
	n       int
	end     int64 // the latest that anything in it ended
}

// record is one thing that was recorded. Times are in nanoseconds of the recording's
// clock.
type record struct {
	kind   kind
	engine Engine
	timed  bool  // from and to are known
	row    int32 // on the host, or of a counter
	lane   int32 // on the device
	name   int32
	batch  int32 // from 1; 0: none
	count  int32 // samples

	start, end int64 // on the host: of a span, or of a call
	from, to   int64 // on the device
	bytes      int64 // or the value of a counter
	read       int64 // stages of a span, in nanoseconds
	decode     int64
	resize     int64
}

type kind uint8

const (
	kindSpan    kind = iota // on the host
	kindCall                // on the host, with its work on the device
	kindWork                // on the device; nobody knows of its call, and row is lane
	kindCounter             // a value from start on
)

// last is when the latest part of a record ended.
func (r *record) last() int64 {
	if r.timed {
		return max(r.end, r.to)
	}
	return r.end
}

type rowKey struct{ group, name string }

// table numbers what it is given. When it is full, others share a number.
type table[K comparable] struct {
	list []K
	ids  map[K]int32
}

// mostNames bounds tables: names come from users too.
const mostNames = 1 << 16

func (t *table[K]) id(k, other K) int32 {
	id, ok := t.ids[k]
	if ok {
		return id
	}
	if len(t.list) >= mostNames {
		if k = other; t.ids[k] > 0 {
			return t.ids[k]
		}
	}
	if t.ids == nil {
		t.ids = map[K]int32{}
	}
	id = int32(len(t.list))
	t.list = append(t.list, k)
	t.ids[k] = id
	return id
}

func (s *store) row(group, name string) int32 {
	id := s.rows.id(rowKey{group, name}, rowKey{"others", "others"})
	for len(s.latest) <= int(id) {
		s.latest = append(s.latest, -1)
	}
	return id
}

func (s *store) name(name string) int32 { return s.names.id(name, "others") }

// add returns room for another record, to be filled in at once. Its number is that of
// the newest of its row.
func (s *store) add(row int32) *record {
	last := len(s.chunks) - 1
	if last < 0 || s.chunks[last].n == chunkRecords {
		c := &chunk{}
		if len(s.chunks) == s.most {
			c = s.chunks[0]
			s.dropped += int64(c.n)
			s.begun++
			s.chunks = slices.Delete(s.chunks, 0, 1)
			c.n, c.end = 0, 0
		}
		s.chunks = append(s.chunks, c)
		last = len(s.chunks) - 1
	}
	c := s.chunks[last]
	s.latest[row] = (s.begun+int64(last))*chunkRecords + int64(c.n)
	r := &c.records[c.n]
	*r = record{row: row}
	c.n++
	return r
}

// put adds a record.
func (s *store) put(r record) {
	*s.add(r.row) = r
	c := s.chunks[len(s.chunks)-1]
	c.end = max(c.end, r.last())
}

// newest returns the newest record of a row and its chunk, if it is still there.
func (s *store) newest(row int32) (*record, *chunk) {
	n := s.latest[row]
	if n < s.begun*chunkRecords {
		return nil, nil
	}
	c := s.chunks[n/chunkRecords-s.begun]
	return &c.records[n%chunkRecords], c
}

// Short spans of a row that have one name and follow each other closely are one, with
// the batch of the first: samples of a few microseconds would else fill the store
// within seconds. No span becomes longer than longestMerged for that.
const (
	shortSpan     = 100_000 // nanoseconds
	closeTogether = 10_000
	longestMerged = 1_000_000
)

// span adds a span of the host, or makes the newest of its row longer.
func (s *store) span(row probe.Row, name string, r record) {
	r.kind, r.row, r.name = kindSpan, s.row(row.Group, row.Name), s.name(name)
	if old, c := s.newest(r.row); old != nil && old.kind == kindSpan && old.name == r.name &&
		r.end-r.start < shortSpan && r.start >= old.end && r.start-old.end < closeTogether && r.end-old.start < longestMerged {
		old.end = r.end
		old.count += r.count
		old.bytes += r.bytes
		old.read += r.read
		old.decode += r.decode
		old.resize += r.resize
		c.end = max(c.end, r.end)
		return
	}
	s.put(r)
}

// all copies what there is, the oldest first.
func (s *store) all() (out []record) {
	room := 0
	for _, c := range s.chunks {
		room += c.n
	}
	out = make([]record, 0, room)
	for _, c := range s.chunks {
		out = append(out, c.records[:c.n]...)
	}
	return out
}

// since copies the spans that ended at t or later, at most so many, the newest first.
func (s *store) since(t int64, most int) (out []record) {
	for _, c := range slices.Backward(s.chunks) {
		if c.end < t {
			continue
		}
		for i := c.n - 1; i >= 0; i-- {
			if len(out) >= most {
				return out
			}
			if r := &c.records[i]; r.kind != kindCounter && r.last() >= t {
				out = append(out, *r)
			}
		}
	}
	return out
}
