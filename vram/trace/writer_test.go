package trace

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWriteAndRead(t *testing.T) {
	events := []Event{
		{ID: 0, Bytes: 1, Stream: 2, Purpose: "weights", Name: "a \"b\"\\ \n ä <&>", Time: -time.Nanosecond},
		{ID: 7, Bytes: math.MaxInt64 - 1, Time: 90 * time.Second},
		{Failed: true, Bytes: 12, Stream: 1, Time: 1},
		{Op: Free, ID: 0, Bytes: 1, Stream: 2, Time: 10*time.Second + 20},
		{Op: Free, ID: 7, Bytes: math.MaxInt64 - 1, Stream: 3, Time: math.MaxInt64},
		{ID: math.MaxUint64 - 1, Bytes: 5, Time: math.MinInt64},
	}
	text := write(t, slices.Values(events))
	got, err := readAll(text, Options{})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !slices.Equal(got, events) {
		t.Fatalf("got %+v\nwant %+v\nof %s", got, events, text)
	}
}

func TestWriteErrors(t *testing.T) {
	for name, events := range map[string][]Event{
		"no bytes":        {{ID: 1}},
		"negative":        {{ID: 1, Bytes: -1}},
		"free of nothing": {{Op: Free, ID: 1}},
		"double alloc":    {{ID: 1, Bytes: 1}, {ID: 1, Bytes: 1}},
		"stream":          {{ID: 1, Bytes: 1, Stream: -1}},
		"op":              {{Op: 7, ID: 1, Bytes: 1}},
		"failed free":     {{ID: 1, Bytes: 1}, {Op: Free, ID: 1, Failed: true}},
		"failed nothing":  {{Failed: true}},
	} {
		var out strings.Builder
		w := NewWriter(&out)
		var err error
		for _, e := range events {
			err = w.Write(e)
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want %v", name, err, ErrMalformed)
		}
		if err := w.Flush(); err != nil || strings.Count(out.String(), "\n") != len(events)-1 {
			t.Errorf("%s: wrote %q, %v", name, out.String(), err)
		}
	}
	broken := errors.New("disk full")
	w := NewWriter(&failing{broken})
	w.Write(Event{ID: 1, Bytes: 1})
	if err := w.Flush(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, "-0.25": -250 * time.Millisecond, "1e-3": time.Millisecond,
		"0.1234567891": 123456789, "9000000000": 9e9 * time.Second, "1E2": 100 * time.Second,
	} {
		if got, ok := parseSeconds([]byte(text)); !ok || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "x", "1:2", "1e300", "NaN", "Inf", "-1e20", "9223372036.854775808", "-9223372036.854775809"} {
		if got, ok := parseSeconds([]byte(text)); ok {
			t.Errorf("%q: got %v", text, got)
		}
	}
	for _, d := range []time.Duration{0, 1, -1, 999999999, 1e9, 1e9 + 1, -1500 * time.Millisecond, 1e18} {
		if got, ok := parseSeconds(appendSeconds(nil, d)); !ok || got != d {
			t.Errorf("%d became %d, %v", d, got, ok)
		}
	}
}
