package collreport

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page/pagetest"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

// fixed is a run as it might be: 4 µs a call, and 10 GB/s.
func fixed() *Report {
	b := &collbench.Report{
		Options: collbench.Options{Operations: collbench.Operations(), Repeats: 20, Warmup: 5, Type: dtype.F32},
		World:   launch.World{Launcher: "openmpi", Size: 4, LocalSize: 4}, Hosts: 2,
	}
	for _, name := range collbench.Operations() {
		for _, size := range []int64{16, 64 << 10, 64 << 20} {
			timing := func(single, mean float64) *collbench.Timing {
				mean += float64(size) / 10e9
				t := &collbench.Timing{Mean: mean, Algorithm: float64(size) / mean}
				if t.Bus = t.Algorithm * collbench.BusFactor(name, 4); size <= collbench.SmallBytes {
					t.Single = mean + single
				}
				return t
			}
			row := collbench.Row{Operation: name, Bytes: size, Apart: timing(2e-6, 4e-6)}
			switch name {
			case collbench.Broadcast:
				row.Apart, row.InPlace = nil, row.Apart
			case collbench.AllReduce:
				row.InPlace = timing(2e-6, 4e-6)
				row.InPlace.Mean *= 0.5
			}
			b.Rows = append(b.Rows, row)
		}
	}
	return &Report{MeasuredAt: "2026-01-02T03:04:05Z", Commit: "0123456789abcdef with changes", Platform: "linux/amd64", CPU: "Some CPU", CPUs: 2,
		Device: device.Info{Name: "Some <host>", Integrated: true}, Bench: b}
}

func render(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, r); err != nil {
		t.Fatal(err)
	}
	pagetest.Check(t, b.String())
	return b.String()
}

func TestPage(t *testing.T) {
	text := render(t, fixed())
	for _, want := range []string{
		"4 ranks on 2 hosts", "All-reduce reaches a bus bandwidth of 15.0 GB/s; of 16 B, it takes 6.00 µs.", "Some &lt;host&gt;", "Some CPU, 2 CPUs",
		"2026-01-02T03:04:05Z", "commit 0123456789ab with changes", "4 ranks of a host share 2 CPUs", "2(n−1)/n</td><td>1.50",
		"Bucket gradients below 64 KiB.", "an all-reduce of 16 B takes 4.00 µs, one of 64 KiB takes 10.6 µs",
		"Queue calls, and wait once.", "takes 6.00 µs where each is waited for, and 4.00 µs back to back",
		"Reduce in place.", "takes 3.36 ms in place and 6.71 ms into another buffer",
		"Shard the optimizer’s state (ZeRO) for memory, not for time.", "take 13.4 ms together, an all-reduce 6.71 ms",
		"After 5 calls to warm up, 20 were queued",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, none := range []string{"goroutines", "WRONG", "less than the default"} {
		if strings.Contains(text, none) {
			t.Errorf("the page has %q", none)
		}
	}
}

// What makes figures doubtful is said first.
func TestNotices(t *testing.T) {
	r := fixed()
	r.Bench.World.Launcher = ""
	r.Bench.SizeReason = "2 buffers would be too much"
	r.Bench.Rows[1].Wrong = "all-reduce of 64 KiB, rank 3: byte 8 of 65,536"
	text := render(t, r)
	for _, want := range []string{"4 ranks in one process", "goroutines of one process", "less than the default: 2 buffers would be too much.",
		"Some values were wrong", "rank 3: byte 8 of 65,536", "<td>WRONG</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// A report of one operation, or of none, is a page too.
func TestFewRows(t *testing.T) {
	r := fixed()
	r.Bench.Rows = r.Bench.Rows[9:10] // a broadcast
	if text := render(t, r); !strings.Contains(text, "Broadcast reaches") || strings.Contains(text, "What to do") || strings.Contains(text, "all-gather") {
		t.Error("the page tells of what was not measured")
	}
	r.Bench.Rows = nil
	if text := render(t, r); !strings.Contains(text, "Nothing was measured.") {
		t.Error("the page does not say that it is empty")
	}
}

func TestColours(t *testing.T) { pagetest.Colours(t, string(page.Style(styleText)), series) }
