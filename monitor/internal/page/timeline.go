package page

import (
	"net/http"
	"time"

	"github.com/pinion-gpu/pinion/timeline"
)

// maxSpans is how many spans of a recording are answered with.
const maxSpans = 5000

// timelineDocument is the answer of api/timeline: the newest spans of the recording
// that is on.
type timelineDocument struct {
	Recording      bool            `json:"recording"`
	NowSeconds     float64         `json:"now_seconds"` // of the recording's clock
	DroppedRecords int64           `json:"dropped_records"`
	Spans          []timeline.Span `json:"spans"` // by start
}

func (s *server) timeline(r *http.Request) (any, error) {
	q, err := parse(r, number{"seconds", 1, 60, 5}, number{"limit", 1, maxSpans, 2000})
	if err != nil {
		return nil, err
	}
	d := timelineDocument{Spans: []timeline.Span{}}
	if recording := timeline.Current(); recording != nil {
		now := recording.Now()
		d.Recording, d.NowSeconds, d.DroppedRecords = true, now.Seconds(), recording.Dropped()
		for _, span := range recording.Spans(now-time.Duration(q["seconds"])*time.Second, int(q["limit"])) {
			span.Group, span.Row, span.Name = clip(span.Group), clip(span.Row), clip(span.Name)
			d.Spans = append(d.Spans, span)
		}
	}
	return d, nil
}
