package main

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/loader"
)

// live is the line that shows how a run goes.
type live struct {
	line   *progress
	device string

	at   time.Time // when text was made
	last loader.Stats
	text string
}

// livePace is how often figures are made anew.
const livePace = 500 * time.Millisecond

func newLive(line *progress, device string) *live {
	return &live{line: line, device: device, at: time.Now(), text: "feeding " + device}
}

// show shows that done of total batches are done.
func (l *live) show(now loader.Stats, done, total int) {
	if passed := time.Since(l.at); passed >= livePace {
		s := now.Sub(l.last)
		l.text = fmt.Sprintf("%s: %.0f samples/s, %s GB/s, %d of %d slabs in use, %d ready, limit: %s", l.device,
			float64(s.Samples)/passed.Seconds(), gb(float64(s.BytesToDevice)/passed.Seconds()/1e9),
			now.Reading, now.Slabs, now.Ready, limitNames[s.Limit(passed)])
		l.at, l.last = time.Now(), now
	}
	l.line.show(done, total, l.text)
}

// limitNames says in words what holds a pipeline up.
var limitNames = map[string]string{
	"device":           "the device's own work",
	"read":             "reading files",
	"decode":           "decoding",
	"resize":           "resizing",
	"h2d":              "the link",
	"decode on device": "decoding on the device",
	"transform":        "the transform on the device",
	"latency":          "latency (larger batches, more workers or prefetch)",
}
