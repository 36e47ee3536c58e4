package trace

import (
	"bytes"
	"iter"
	"strings"
	"testing"
)

// readAll reads a whole trace from text.
func readAll(text string, o Options) ([]Event, error) {
	r, err := NewReader(strings.NewReader(text), o)
	if err != nil {
		return nil, err
	}
	var events []Event
	for e, err := range r.All() {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// write writes events as JSON lines.
func write(t testing.TB, events iter.Seq[Event]) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
