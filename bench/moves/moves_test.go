package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/transfer"
)

// TestQuick runs everything small on the host backend: the document is what
// readers of it expect, and nothing is skipped that the host can do.
func TestQuick(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	data := make([]byte, 5<<20+123)
	fill(data, 1)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(context.Background(), options{device: "host", quick: true, file: file}, &out); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range d.Skipped {
		t.Logf("skipped: %s: %s", s.Name, s.Why)
		have[s.Name] = true
	}
	for _, r := range d.Rows {
		if have[r.Name] {
			t.Errorf("two rows %q", r.Name)
		}
		have[r.Name] = true
		mayBeNone := r.Unit == "allocs" || r.Unit == "%"
		if r.Value < r.Min || r.Value > r.Max || r.Value < 0 || r.Value == 0 && !mayBeNone {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range []string{
		"scattered 16 KiB d2d", "scattered 256 KiB d2h, pageable", "strided rows 16 KiB h2d", "scattered 64 KiB h2d",
		"4 KiB pinned h2d, queued", "4 KiB pinned h2d, queued: allocations",
		"pageable both", "pipeline, pinned", "pipeline, pageable",
		"file in page cache h2d", "disk h2d", "chosen path, slower than the best",
	} {
		if !have[name] {
			t.Errorf("no row %q", name)
		}
	}
	if want := 2 * 5; len(d.Choice) != want { // 1 KiB to 256 KiB, both directions
		t.Errorf("%d sizes and directions, want %d", len(d.Choice), want)
	}
	if d.Peer != "Pinion" || d.What != "moves" || d.Machine == "" || d.Commit == "" {
		t.Errorf("%+v", d)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, options{device: "host", quick: true}, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, printed %q", err, &out)
	}
}

// TestScatteredRight: a byte in the wrong place is found, inside the blocks and
// beside them.
func TestScatteredRight(t *testing.T) {
	const size = 4
	src := []byte("aaaabbbbcccc")
	blocks := []transfer.Block{{Dst: 8, Src: 0, Bytes: size}, {Dst: 0, Src: 4, Bytes: size}}
	right := "bbbbZZZZaaaa" // blank is Z
	if err := scatteredRight([]byte(right), src, blocks); err != nil {
		t.Error(err)
	}
	for i := range right {
		wrong := []byte(right)
		wrong[i] ^= 1
		if scatteredRight(wrong, src, blocks) == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}

func TestClampedRight(t *testing.T) {
	sent := []byte{0, 1, 127, 128, 255}
	if err := clampedRight([]byte{0, 1, 127, 0, 0}, sent); err != nil {
		t.Error(err)
	}
	if err := clampedRight([]byte{0, 1, 127, 0, 255}, sent); err == nil || !strings.Contains(err.Error(), "byte 4 of 5") {
		t.Error(err)
	}
}

func TestIdealTime(t *testing.T) {
	for _, c := range []struct {
		alone        [3]time.Duration
		chunk, total int64
		want         time.Duration
	}{
		{[3]time.Duration{5, 7, 3}, 10, 10, 15},      // one chunk: nothing overlaps
		{[3]time.Duration{5, 5, 5}, 10, 30, 25},      // fill, three chunks, drain
		{[3]time.Duration{10, 20, 10}, 10, 40, 100},  // computing is the longest
		{[3]time.Duration{20, 10, 20}, 10, 15, 60},   // 20+10+20, and half a chunk behind
		{[3]time.Duration{100, 50, 10}, 10, 20, 260}, // copies in are the longest
	} {
		if got := idealTime(c.alone, c.chunk, c.total); got != c.want {
			t.Errorf("%v, chunks of %d, %d bytes: %d, want %d", c.alone, c.chunk, c.total, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.values); got != c.want {
			t.Errorf("%v: %g, want %g", c.values, got, c.want)
		}
	}
}
