package main

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/loader"
)

// live shows how a run is going.
type live struct {
	line *cli.Progress

	at    time.Time // when the facts were made
	last  loader.Stats
	facts []string
}

// livePace is how often the facts are made anew.
const livePace = 500 * time.Millisecond

func newLive(line *cli.Progress) *live {
	return &live{line: line, at: time.Now()}
}

// show shows that done of total batches are done.
func (l *live) show(now loader.Stats, done, total int) {
	if passed := time.Since(l.at); passed >= livePace {
		s := now.Sub(l.last)
		l.facts = []string{
			fmt.Sprintf("%.0f samples/s", float64(s.Samples)/passed.Seconds()),
			"limit: " + limitWords[s.Limit(passed)],
			fmt.Sprintf("%s GB/s", cli.GBPerS(float64(s.BytesToDevice)/passed.Seconds()/1e9)),
			fmt.Sprintf("%d ready, %d of %d slabs in use", now.Ready, now.Reading, now.Slabs),
		}
		l.at, l.last = time.Now(), now
	}
	l.line.ShowFacts(done, total, "feeding", l.facts...)
}

// limitWords are short names of what limits a pipeline.
var limitWords = map[string]string{
	"":                 "none yet",
	"device":           "the device",
	"read":             "reading",
	"decode":           "decoding",
	"resize":           "resizing",
	"h2d":              "the link",
	"decode on device": "device decoding",
	"transform":        "the transform",
	"latency":          "latency",
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
