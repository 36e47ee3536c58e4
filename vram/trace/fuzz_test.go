package trace

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// sound checks what every trace that was read must keep, and that it can be
// written and read again.
func sound(t *testing.T, events []Event) {
	live := map[uint64]int64{}
	used := map[uint64]bool{}
	for i, e := range events {
		switch {
		case e.Bytes <= 0 || e.Stream < 0:
			t.Fatalf("event %d: %+v", i, e)
		case e.Failed:
		case e.Op == Alloc:
			if used[e.ID] {
				t.Fatalf("event %d: id %d is used again", i, e.ID)
			}
			used[e.ID] = true
			live[e.ID] = e.Bytes
		default:
			if live[e.ID] != e.Bytes {
				t.Fatalf("event %d: free of %+v, live are %d bytes", i, e, live[e.ID])
			}
			delete(live, e.ID)
		}
	}
	got, err := readAll(write(t, slices.Values(events)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, events) {
		t.Fatalf("got %+v\nwant %+v", got, events)
	}
}

func fuzzReader(t *testing.T, in []byte) {
	events, err := readAll(string(in), Options{MaxSnapshotBytes: 1 << 20})
	if err != nil {
		known := errors.Is(err, ErrFormat) || errors.Is(err, ErrMalformed) || errors.Is(err, ErrTooLarge)
		if !known && !bytes.HasPrefix(in, []byte("\x1f\x8b")) { // gzip has its own errors
			t.Fatalf("foreign error %v", err)
		}
	}
	sound(t, events)
}

func FuzzJSONLines(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) { fuzzReader(t, append([]byte{'{'}, in...)) })
}

func FuzzCSV(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) { fuzzReader(t, append([]byte(rmmHeader), in...)) })
}

func FuzzSnapshot(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) { fuzzReader(t, append([]byte{0x80}, in...)) })
}

// FuzzRead leaves the format to the input.
func FuzzRead(f *testing.F) {
	f.Fuzz(fuzzReader)
}
