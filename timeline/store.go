package timeline

import "slices"

// store is the memory of a recording: records in chunks, of which the oldest is
// written anew when there are as many as there may be.
type store struct {
	chunks  []*chunk // in the order in which they were begun
	most    int      // chunks
	dropped int64    // records that are gone

	rows  table[rowKey]
	names table[string]
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
	return s.rows.id(rowKey{group, name}, rowKey{"others", "others"})
}

func (s *store) name(name string) int32 { return s.names.id(name, "others") }

// put adds a record.
func (s *store) put(r record) {
	last := len(s.chunks) - 1
	if last < 0 || s.chunks[last].n == chunkRecords {
		c := &chunk{}
		if len(s.chunks) == s.most {
			c = s.chunks[0]
			s.dropped += int64(c.n)
			s.chunks = slices.Delete(s.chunks, 0, 1)
			c.n, c.end = 0, 0
		}
		s.chunks = append(s.chunks, c)
		last = len(s.chunks) - 1
	}
	c := s.chunks[last]
	c.records[c.n] = r
	c.n++
	c.end = max(c.end, r.last())
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
