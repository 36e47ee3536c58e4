package page

import (
	"time"
)

// History is samples of a day in bounded memory: all of the last minutes, and fewer of
// what is longer ago. It is the server's part of what history.js does in the page.
type history struct {
	columns []Column
	index   map[Column]int
	tiers   []*tier
}

// steps are the times between two points, and how many points there are of each.
var steps = []struct {
	step   time.Duration
	points int
}{{time.Second, 600}, {10 * time.Second, 720}, {time.Minute, 1440}}

// maxColumns bounds what a history keeps: 2760 points of so many numbers.
const maxColumns = 256

// tier is points of one step, a ring.
type tier struct {
	step   time.Duration
	points []point // by time; the last one grows
	first  int     // of the ring, once it is full
	most   int
}

// point is the samples of one step. There is no value of columns that came later.
type point struct {
	slot    int64 // time / step
	at      int64 // of the latest sample, in milliseconds since 1970
	samples int
	values  []float64
}

func newHistory() *history {
	h := &history{index: map[Column]int{}}
	for _, s := range steps {
		h.tiers = append(h.tiers, &tier{step: s.step, most: s.points})
	}
	return h
}

// add adds a sample, which is later than those before. Columns beyond the bound are
// left out.
func (h *history) add(at time.Time, values []Value) {
	row := make([]float64, len(h.columns), len(h.columns)+len(values))
	for _, v := range values {
		i, there := h.index[v.Column]
		if !there {
			if len(h.columns) == maxColumns {
				continue
			}
			i = len(h.columns)
			h.columns, row = append(h.columns, v.Column), append(row, 0)
			h.index[v.Column] = i
		}
		row[i] = v.Value
	}
	for _, t := range h.tiers {
		t.add(at, row, h.columns)
	}
}

func (t *tier) add(at time.Time, row []float64, columns []Column) {
	slot := at.UnixNano() / int64(t.step)
	p := t.last()
	if p == nil || p.slot != slot {
		if len(t.points) < t.most {
			t.points = append(t.points, point{})
			p = &t.points[len(t.points)-1]
		} else {
			p = &t.points[t.first]
			t.first = (t.first + 1) % t.most
		}
		*p = point{slot: slot, values: p.values[:0]}
	}
	for len(p.values) < len(row) {
		p.values = append(p.values, 0)
	}
	for i, v := range row {
		if columns[i].Rate { // a mean, of which what was not there is 0
			p.values[i] += (v - p.values[i]) / float64(p.samples+1)
		} else {
			p.values[i] = max(p.values[i], v)
		}
	}
	p.samples++
	p.at = at.UnixMilli()
}

func (t *tier) last() *point {
	if len(t.points) == 0 {
		return nil
	}
	return &t.points[(t.first+len(t.points)-1)%len(t.points)]
}

// historyDocument is a history as JSON.
type historyDocument struct {
	Columns []Column       `json:"columns"`
	Tiers   []tierDocument `json:"tiers"`
}

type tierDocument struct {
	StepSeconds float64     `json:"step_seconds"`
	Points      int         `json:"points"`  // that there is room for
	Times       []int64     `json:"times"`   // in milliseconds since 1970
	Samples     []int       `json:"samples"` // in each point
	Values      [][]float64 `json:"values"`  // by point, in the order of the columns; later ones may be missing
}

func (h *history) document() historyDocument {
	d := historyDocument{Columns: append([]Column{}, h.columns...)}
	for _, t := range h.tiers {
		n := len(t.points)
		x := tierDocument{StepSeconds: t.step.Seconds(), Points: t.most, Times: make([]int64, n), Samples: make([]int, n), Values: make([][]float64, n)}
		for i := range n {
			p := t.points[(t.first+i)%n]
			x.Times[i], x.Samples[i], x.Values[i] = p.at, p.samples, append([]float64{}, p.values...)
		}
		d.Tiers = append(d.Tiers, x)
	}
	return d
}
