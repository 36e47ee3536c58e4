package vram

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	pib = 1 << 50
)

// account is one that has given half of what came back.
func account(current int64) Account {
	return Account{Current: current, Peak: current + current/4, Allocated: 2 * current, Freed: current}
}

func TestSummary(t *testing.T) {
	training := Stats{
		Requested: account(61*gib + 300*mib), Allocated: account(61*gib + 301*mib), Active: account(61*gib + 813*mib),
		Reserved: account(63 * gib), Blocks: account(1203),
		Free: 1211 * mib, Fragmented: 411 * mib, LargestFree: 600 * mib, Budget: 64 * gib, ChunkBytes: 8 * mib,
		Calls: DriverCalls{Create: 8064, Release: 12, Map: 9001, Unmap: 949}, Retries: 3, OutOfMemory: 1,
	}
	training.Purposes[Weights].Allocated = account(13 * gib)
	training.Purposes[Activations].Allocated = account(48*gib + 301*mib)
	training.Purposes[Activations].Limit = 60 * gib
	training.Purposes[Batch].Allocated = Account{Peak: 300 * mib, Allocated: 3 * gib, Freed: 3 * gib}
	training.Purposes[KVCache].Limit = gib // never used

	segments := Stats{
		Requested: account(1), Allocated: account(512), Active: account(512), Reserved: account(2 * mib), Blocks: account(1),
		Free: 2*mib - 512, Fragmented: 2*mib - 512, LargestFree: 2*mib - 512, Calls: DriverCalls{Create: 1},
	}
	segments.Purposes[Other].Allocated = account(512)

	huge := Stats{
		Requested: account(3 * pib), Allocated: Account{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		Active: account(1023 * pib), Reserved: account(1 * pib), Blocks: account(123_456_789_012), Free: 1023 * kib,
		Budget: math.MaxInt64, ChunkBytes: 32 * mib, Retries: math.MaxInt64,
	}
	huge.Purposes[KVCache] = PurposeStats{Allocated: account(7 * pib), Limit: 1 << 62}

	impossible := Stats{
		Requested: account(-5), Allocated: account(-4 * gib), Reserved: account(-mib), Free: math.MinInt64, Fragmented: -2000,
		Blocks: account(-1), Budget: -gib, ChunkBytes: -512,
	}
	impossible.Purposes[Staging].Allocated = account(-4 * gib)

	for name, s := range map[string]Stats{
		"zero": {}, "training": training, "segments": segments, "huge": huge, "impossible": impossible,
	} {
		text := s.Summary()
		golden(t, "summary_"+name+".txt", text)
		aligned(t, name, text)
	}
}

// aligned checks that the columns of the accounts line up: that every row of a
// table ends its cells where the header does.
func aligned(t *testing.T, name, text string) {
	t.Helper()
	var ends []int // of the header's words
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			break
		}
		if ends == nil {
			at := 0
			for _, word := range []string{"current", "peak", "total allocated", "total freed", "limit"} {
				if !strings.Contains(line, word) {
					continue
				}
				at = strings.Index(line, word) + len(word)
				ends = append(ends, at)
			}
			continue
		}
		fits := false
		for _, end := range ends {
			fits = fits || len(line) == end
		}
		if !fits {
			t.Errorf("%s: the row %q ends in no column", name, line)
		}
		for _, end := range ends {
			if end < len(line) && (line[end-1] == ' ' || line[end] != ' ') {
				t.Errorf("%s: the row %q has no cell that ends at %d", name, line, end)
			}
		}
	}
}
