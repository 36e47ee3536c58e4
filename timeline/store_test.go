package timeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A store keeps the newest records, and knows how many it dropped.
func TestDropped(t *testing.T) {
	r := start(t, Options{Records: 2 * chunkRecords, Every: time.Hour})
	const all = 5*chunkRecords + 7
	for i := range all {
		at := r.began.Add(time.Duration(i) * time.Millisecond)
		r.Span(probe.Row{Group: "g", Name: "r"}, probe.Span{Name: "s", Start: at, End: at.Add(time.Microsecond), Batch: i + 1})
	}
	spans := r.Spans(0, all)
	if want := chunkRecords + 7; len(spans) != want || r.Dropped() != int64(all-want) {
		t.Fatalf("%d spans are kept and %d dropped, want %d and %d", len(spans), r.Dropped(), want, all-want)
	}
	for i, s := range spans {
		if want := all - len(spans) + i + 1; s.Batch != want {
			t.Fatalf("span %d is that of batch %d, want %d", i, s.Batch, want)
		}
	}
	if got := r.Spans(0, 10); len(got) != 10 || got[9] != spans[len(spans)-1] || got[0] != spans[len(spans)-10] {
		t.Errorf("the newest 10 of %d: %+v", len(spans), got)
	}
	last := spans[len(spans)-1]
	if got := r.Spans(time.Duration(last.EndSeconds*1e9), 10); len(got) != 1 || got[0] != last {
		t.Errorf("since the last one: %+v", got)
	}
	if rep := r.Report(); rep.DroppedRecords != r.Dropped() || rep.Records != len(spans) {
		t.Errorf("the report is about %d records, %d dropped", rep.Records, rep.DroppedRecords)
	}
}

// Short spans of a row are put together, and nothing of their sums is lost.
func TestMerged(t *testing.T) {
	r := start(t, Options{Every: time.Hour})
	rng := rand.New(rand.NewPCG(3, 4))
	row := probe.Row{Group: "loader", Name: "worker 1"}
	at, samples, read, busy := time.Duration(0), 0, time.Duration(0), time.Duration(0)
	const tasks = 3000
	for i := range tasks {
		took := time.Duration(1+rng.IntN(40)) * time.Microsecond
		r.Span(row, probe.Span{Name: "samples", Start: r.began.Add(at), End: r.began.Add(at + took), Batch: 1 + i/500, Samples: 3, Stages: probe.Stages{Read: took / 2}})
		at += took + time.Duration(rng.IntN(3))*time.Microsecond
		samples, read, busy = samples+3, read+took/2, busy+took
	}
	// These are not short, and stay apart.
	for range 5 {
		r.Span(row, probe.Span{Name: "samples", Start: r.began.Add(at), End: r.began.Add(at + time.Millisecond), Batch: 9, Samples: 1})
		at += time.Millisecond
	}
	spans := r.Spans(0, tasks)
	long := 0
	var gotRead float64
	for i, s := range spans {
		if s.Batch == 9 {
			long++
			continue
		}
		samples -= s.Samples
		gotRead += s.ReadSeconds
		if s.EndSeconds-s.StartSeconds > seconds(longestMerged) {
			t.Errorf("a span of %v s", s.EndSeconds-s.StartSeconds)
		}
		if i > 0 && s.StartSeconds < spans[i-1].EndSeconds {
			t.Errorf("%+v overlaps %+v", s, spans[i-1])
		}
	}
	if long != 5 || samples != 0 || int64(gotRead*1e9+0.5) != int64(read) || len(spans) > tasks/10 {
		t.Errorf("%d spans, %d of them long, %d samples lost, read %v of %v", len(spans), long, samples, gotRead, read)
	}
}

// Names and rows beyond the limit share one.
func TestManyNames(t *testing.T) {
	var s table[int32]
	for i := range int32(mostNames + 10) {
		if id := s.id(i, -1); i < mostNames && id != i || i >= mostNames && id != mostNames {
			t.Fatalf("%d has number %d", i, id)
		}
	}
	if len(s.list) != mostNames+1 {
		t.Errorf("%d names", len(s.list))
	}
}

func TestStart(t *testing.T) {
	for _, o := range []Options{{Records: 1}, {Records: -1}, {Every: -1}, {Records: 1 << 40}} {
		_, err := Start(o)
		testkit.WantError(t, "bad options", err, ErrArgument)
	}
	if Current() != nil {
		t.Error("there is a recording, of none")
	}
	r := start(t, Options{})
	if Current() != r {
		t.Error("the recording that is on is another")
	}
	_, err := Start(Options{})
	testkit.WantError(t, "a second recording", err, ErrActive)
	r.Stop()
	r.Stop()
	if Current() != nil {
		t.Error("a recording that was stopped is still on")
	}
	probe.Begin(probe.Row{}, "").End(probe.Row{}, probe.Span{})
	if n := len(r.Spans(0, 10)); n > 0 {
		t.Errorf("%d spans after the end", n)
	}
	start(t, Options{})
}
