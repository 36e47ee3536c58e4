package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Engine is the part of a device that work runs on.
type Engine uint8

// The engines. Copies between devices and within one are told apart, since only those
// to and from the host use the link to it.
const (
	OnHost  Engine = iota // none: it ran on the host
	H2D                   // copies from the host
	D2H                   // copies to the host
	D2D                   // copies inside the device
	P2P                   // copies from another device
	Compute               // kernels, Go functions in stream order, memory being set
	engines
)

var engineNames = [engines]string{"host", "h2d", "d2h", "d2d", "p2p", "compute"}

func (e Engine) String() string { return engineNames[e] }

// MarshalText makes the engine its name in JSON.
func (e Engine) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// Span is something that took time. Times are in seconds of the recording's clock
// ([Recording.Now]), those of a device too.
type Span struct {
	// Group and Row say where it belongs: "loader" and "worker 3", or "cuda:0" and
	// "loader copies". Spans of one row may overlap where several goroutines do the
	// same.
	Group string `json:"group"`
	Row   string `json:"row"`

	Name         string  `json:"name"`
	StartSeconds float64 `json:"start_seconds"`
	EndSeconds   float64 `json:"end_seconds"`
	Engine       Engine  `json:"engine"` // [OnHost] or that of the device

	// CallSeconds is when the work of a device was queued; for spans of the host, and
	// for work of other libraries, it is the start.
	CallSeconds float64 `json:"call_seconds"`

	Bytes   int64 `json:"bytes,omitempty"`   // that it moved
	Batch   int   `json:"batch,omitempty"`   // that it was for, counted from 1
	Samples int   `json:"samples,omitempty"` // that it was about

	// What a worker's time went to.
	ReadSeconds   float64 `json:"read_seconds,omitempty"`
	DecodeSeconds float64 `json:"decode_seconds,omitempty"`
	ResizeSeconds float64 `json:"resize_seconds,omitempty"`
}

// Spans returns what ended at or after since, in the order of the starts, at most so
// many: when there are more, those that were recorded last. Work of a device is there [Options].Every
// after it ended. For the last five seconds, ask for
//
//	r.Spans(r.Now()-5*time.Second, 5000)
//
// It holds up those who record for as long as it takes to copy what it returns.
func (r *Recording) Spans(since time.Duration, most int) []Span {
	r.flush()
	r.mu.Lock()
	list := r.store.since(int64(since), most)
	rows, names := r.store.rows.list, r.store.names.list // they only grow
	r.mu.Unlock()
	spans := []Span{}
	for i := range list {
		x := &list[i]
		row := rows[x.row]
		s := Span{
			Group: row.group, Row: row.name, Name: names[x.name],
			StartSeconds: seconds(x.start), EndSeconds: seconds(x.end), CallSeconds: seconds(x.start),
			Bytes: x.bytes, Batch: int(x.batch), Samples: int(x.count),
			ReadSeconds: seconds(x.read), DecodeSeconds: seconds(x.decode), ResizeSeconds: seconds(x.resize),
		}
		if x.kind != kindWork && x.end >= int64(since) {
			spans = append(spans, s)
		}
		if x.timed && x.to >= int64(since) {
			lane := rows[x.lane]
			s.Group, s.Row, s.Engine = lane.group, lane.name, x.engine
			s.StartSeconds, s.EndSeconds = seconds(x.from), seconds(x.to)
			spans = append(spans, s)
		}
	}
	spans = spans[:min(len(spans), max(most, 0))] // a call and its work are one record
	slices.SortStableFunc(spans, func(a, b Span) int { return cmp.Compare(a.StartSeconds, b.StartSeconds) })
	return spans
}

func seconds(nanoseconds int64) float64 { return float64(nanoseconds) / 1e9 }

// UnmarshalText reads what MarshalText makes.
func (e *Engine) UnmarshalText(b []byte) error {
	i := slices.Index(engineNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("timeline: %w: no engine is called %q", ErrArgument, b)
	}
	*e = Engine(i)
	return nil
}
