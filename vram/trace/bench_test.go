package trace

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

const benchLines = 1_000_000

func benchmarkRead(b *testing.B, text []byte, lines int) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := NewReader(bytes.NewReader(text), Options{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for {
			if _, err := r.Next(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != lines {
			b.Fatalf("%d events, want %d", n, lines)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(lines), "ns/line")
}

func BenchmarkReadJSONLines(b *testing.B) {
	events, err := Streams(StreamsOptions{Count: benchLines / 2})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkRead(b, []byte(write(b, events)), benchLines)
}

func BenchmarkReadCSV(b *testing.B) {
	events, err := Streams(StreamsOptions{Count: benchLines / 2})
	if err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	text.WriteString(rmmHeader)
	for e := range events {
		action := "allocate"
		if e.Op == Free {
			action = "free"
		}
		fmt.Fprintf(&text, "140573,12:34:56.789012,%s,0x7f%08x00,%d,0x%x\n", action, e.ID, e.Bytes, e.Stream+1)
	}
	benchmarkRead(b, text.Bytes(), benchLines)
}

func BenchmarkReadSnapshot(b *testing.B) {
	const n = 100_000
	var entries []any
	for i := range n / 2 {
		alloc, free := ent("alloc", i+1, 512), ent("free_completed", i+1, 512)
		alloc["frames"], free["frames"] = []any{}, []any{}
		entries = append(entries, alloc, free)
	}
	benchmarkRead(b, []byte(pickled(b, dict{"segments": []any{}, "device_traces": []any{entries}})), n)
}

func BenchmarkWrite(b *testing.B) {
	seq, err := Streams(StreamsOptions{Count: benchLines / 2})
	if err != nil {
		b.Fatal(err)
	}
	var events []Event
	for e := range seq {
		events = append(events, e)
	}
	for b.Loop() {
		w := NewWriter(io.Discard)
		for _, e := range events {
			if err := w.Write(e); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(events)), "ns/line")
}
