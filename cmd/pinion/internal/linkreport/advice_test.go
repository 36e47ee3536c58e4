package linkreport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
)

// bulk, at and pin make the smallest reports that rules look at.
func bulk(path, direction string, gb, least, most float64) linkbench.Bulk {
	return linkbench.Bulk{Path: path, Direction: direction, Median: gb * 1e9, Least: least * 1e9, Most: most * 1e9}
}

func curveOf(path string, times map[int64]time.Duration) linkbench.Curve {
	c := linkbench.Curve{Path: path, Direction: "h2d"}
	for n := int64(1); n <= 1<<40; n *= 2 {
		if d, there := times[n]; there {
			c.Points = append(c.Points, linkbench.Point{Bytes: n, Median: d, Least: d, Most: d})
		}
	}
	return c
}

func pinTook(what string, d time.Duration) linkbench.Timing {
	return linkbench.Timing{What: what, Median: d, Least: d, Most: d}
}

func TestRules(t *testing.T) {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	type at = map[int64]time.Duration
	link := device.Link{Kind: "PCIe", Gen: 5, Width: 16, MaxGen: 5, MaxWidth: 16}
	narrow := link
	narrow.Width = 8
	curves := func(list ...linkbench.Curve) linkbench.Report {
		return linkbench.Report{Size: gib, PinSize: gib, Curves: list}
	}
	pinning := func(pool time.Duration, list ...linkbench.Curve) linkbench.Report {
		b := curves(list...)
		b.Pin = []linkbench.Timing{pinTook("pinned pool", pool)}
		return b
	}
	rates := func(rows ...linkbench.Bulk) linkbench.Report { return linkbench.Report{Size: gib, Bulk: rows} }
	pins := func(pool, driver time.Duration) linkbench.Report {
		return linkbench.Report{Size: gib, PinSize: gib, Pin: []linkbench.Timing{pinTook("pinned pool", pool), pinTook("driver's allocation", driver)}}
	}
	choice := func(ratios ...float64) linkbench.Report {
		b := linkbench.Report{}
		for i, r := range ratios {
			b.Choice = append(b.Choice, linkbench.Choice{Bytes: kib << i, Direction: "d2h", Best: 10000,
				Chosen: time.Duration(10000 * r), BestPath: "staged", Ratio: r})
		}
		return b
	}
	gpu, host := device.Info{Link: link}, device.Info{Integrated: true}

	for _, c := range []struct {
		name string
		rule func(*Report) (advice, bool)
		r    Report
		say  string // a part of what it does and why; "" is nothing
	}{
		{"x8 in a slot of 16", narrowLink, Report{Device: device.Info{Link: narrow}}, "8 of its 16 lanes, so copies reach at most 50 %"},
		{"all lanes", narrowLink, Report{Device: gpu}, ""},
		{"no link", narrowLink, Report{Device: host}, ""},

		{"half of the link", slowLink, Report{Device: gpu, Bench: rates(bulk("pinned", "h2d", 29.2, 29, 30))}, "reaches 29.2 GB/s, 50 % of the 58.4 GB/s"},
		{"slow to the host only", slowLink, Report{Device: gpu, Bench: rates(bulk("pinned", "h2d", 55, 55, 55), bulk("pinned", "d2h", 20, 20, 20))}, "Device to host, pinned memory reaches 20.0"},
		{"as fast as usual", slowLink, Report{Device: gpu, Bench: rates(bulk("pinned", "h2d", 55, 55, 55), bulk("pinned", "d2h", 55, 55, 55))}, ""},
		{"nothing to compare with", slowLink, Report{Device: host, Bench: rates(bulk("pinned", "h2d", 5, 5, 5))}, ""},

		{"staging pays", usePinion, Report{Bench: curves(curveOf("chosen", at{gib: 20 * time.Millisecond}), curveOf("pageable", at{gib: 150 * time.Millisecond}))},
			"1 GiB to the device takes 20.0 ms instead of the driver’s 150 ms: 7.5 times as fast"},
		{"staging does not pay", usePinion, Report{Bench: curves(curveOf("chosen", at{gib: 148 * time.Millisecond}), curveOf("pageable", at{gib: 150 * time.Millisecond}))}, ""},
		{"no such copies", usePinion, Report{}, ""},
		{"no staging here", usePinion, Report{Device: host, Bench: curves(curveOf("chosen", at{gib: 20 * time.Millisecond}), curveOf("pageable", at{gib: 150 * time.Millisecond}))}, ""},

		{"pinning pays", pinOften, Report{Bench: pinning(47*time.Millisecond, curveOf("pinned", at{gib: 19 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))},
			"Pin memory that is copied 16 times or more. Pinning 1 GiB costs 47.0 ms once and saves 3.00 ms per copy"},
		{"pinning pays exactly", pinOften, Report{Bench: pinning(48*time.Millisecond, curveOf("pinned", at{gib: 16 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))}, "8 times or more"},
		{"pinning pays at once", pinOften, Report{Bench: pinning(time.Millisecond, curveOf("pinned", at{gib: 16 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))}, "copied once or more"},
		{"pinning never pays", pinOften, Report{Bench: pinning(47*time.Millisecond, curveOf("pinned", at{gib: 22 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))}, "Do not pin memory for speed alone. Pinning 1 GiB costs 47.0 ms"},
		{"pinning is slower", pinOften, Report{Bench: pinning(47*time.Millisecond, curveOf("pinned", at{gib: 30 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))}, "Do not pin"},
		{"nothing is copied over a link", pinOften, Report{Device: host, Bench: pinning(47*time.Millisecond, curveOf("pinned", at{gib: 19 * time.Millisecond}), curveOf("chosen", at{gib: 22 * time.Millisecond}))}, ""},
		{"cannot pin", pinOften, Report{Bench: curves(curveOf("chosen", at{gib: time.Second}))}, ""},

		{"half of the rate", smallCopies, Report{Bench: curves(curveOf("pinned", at{kib: 8 * time.Microsecond, mib: 30 * time.Microsecond, gib: 20 * time.Millisecond}))},
			"Merge copies below 1 MiB. From 1 MiB up, copies of pinned memory reach at least half of the full rate (35.0 of 53.7 GB/s to the device). A copy of 1 KiB takes 8.00 µs"},
		{"without pinned memory", smallCopies, Report{Bench: curves(curveOf("chosen", at{kib: 8 * time.Microsecond, mib: 30 * time.Microsecond, gib: 20 * time.Millisecond}))}, "copies of pageable memory"},
		{"small ones are as fast", smallCopies, Report{Bench: curves(curveOf("pinned", at{kib: 1 * time.Microsecond, mib: 1000 * time.Microsecond}))}, ""},
		{"no link to fill", smallCopies, Report{Device: host, Bench: curves(curveOf("pinned", at{kib: 8 * time.Microsecond, mib: 30 * time.Microsecond, gib: 20 * time.Millisecond}))}, ""},
		{"one size only", smallCopies, Report{Bench: curves(curveOf("pinned", at{gib: time.Second}))}, ""},

		{"small ones are alike", pathless, Report{Bench: curves(curveOf("pageable", at{kib: 9000, mib: 90000}), curveOf("pinned", at{kib: 8000, mib: 30000}), curveOf("chosen", at{kib: 9500, mib: 40000}))},
			"Up to 1 KiB, any path will do. Pinned or pageable, plain or through Pinion, a copy takes at most 9.50 µs"},
		{"small ones differ", pathless, Report{Bench: curves(curveOf("pageable", at{kib: 9000}), curveOf("pinned", at{kib: 4000}), curveOf("chosen", at{kib: 9500}))}, ""},
		{"large ones are alike", pathless, Report{Bench: curves(curveOf("pageable", at{kib: 8000, 4 * kib: 9000, mib: 30000}), curveOf("pinned", at{kib: 8000, 4 * kib: 9000, mib: 30000}), curveOf("chosen", at{kib: 8000, 4 * kib: 9000, mib: 30000}))}, "Up to 4 KiB"},
		{"no link, no paths", pathless, Report{Device: host, Bench: curves(curveOf("pageable", at{kib: 9000}), curveOf("pinned", at{kib: 8000}), curveOf("chosen", at{kib: 9500}))}, ""},
		{"nothing to choose", pathless, Report{Bench: curves(curveOf("pageable", at{kib: 9000}), curveOf("chosen", at{kib: 9500}))}, ""},

		{"two engines", bothAtOnce, Report{Device: gpu, Bench: rates(bulk("pinned", "h2d", 50, 50, 50), bulk("pinned", "d2h", 52, 52, 52), bulk("pinned", "both", 100, 100, 100))},
			"Copy in both directions at once. Together they move 100 GB/s, one alone 52.0 GB/s"},
		{"one engine", bothAtOnce, Report{Device: gpu, Bench: rates(bulk("pinned", "h2d", 50, 50, 50), bulk("pinned", "d2h", 52, 52, 52), bulk("pinned", "both", 54, 54, 54))}, "Do not count on both directions at once."},
		{"no link to share", bothAtOnce, Report{Device: host, Bench: rates(bulk("pinned", "h2d", 5, 5, 5), bulk("pinned", "d2h", 5, 5, 5), bulk("pinned", "both", 10, 10, 10))}, ""},

		{"the driver is slow", poolNotDriver, Report{Bench: pins(50*time.Millisecond, 500*time.Millisecond)}, "takes 500 ms to allocate 1 GiB; Pinion’s pool takes 50.0 ms, 10 times as fast"},
		{"the driver is as fast", poolNotDriver, Report{Bench: pins(50*time.Millisecond, 55*time.Millisecond)}, ""},
		{"no pins", poolNotDriver, Report{}, ""},

		{"blocks by kernel", mappedBlocks, Report{Bench: curves(curveOf("mapped", at{gib: 20 * time.Millisecond}), curveOf("pinned", at{16 * kib: 8 * time.Microsecond}))}, "moves 16 KiB blocks at 53.7 GB/s. Copying them one at a time gives 2.05 GB/s"},
		{"the kernel is slow", mappedBlocks, Report{Bench: curves(curveOf("mapped", at{gib: 600 * time.Millisecond}), curveOf("pinned", at{16 * kib: 8 * time.Microsecond}))}, ""},
		{"no link to read over", mappedBlocks, Report{Device: host, Bench: curves(curveOf("mapped", at{gib: 20 * time.Millisecond}), curveOf("pinned", at{16 * kib: 8 * time.Microsecond}))}, ""},
		{"one block only", mappedBlocks, Report{Bench: curves(curveOf("mapped", at{16 * kib: 1000}), curveOf("pinned", at{16 * kib: 8000}))}, ""},

		{"a context", firstCopy, Report{Opened: 400 * time.Millisecond, Bench: rates(bulk("pinned", "h2d", 50, 50, 50))}, "Opening the device took 400 ms, long enough to copy 20.0 GB."},
		{"a context without pinning", firstCopy, Report{Opened: time.Second, Bench: rates(bulk("pageable", "h2d", 7, 7, 7))}, "7.00 GB"},
		{"nothing to open", firstCopy, Report{Opened: time.Millisecond, Bench: rates(bulk("pinned", "h2d", 50, 50, 50))}, ""},

		{"no choice here", choiceHeld, Report{Device: host, Bench: choice(1, 1.5)}, ""},
		{"good choices", choiceHeld, Report{Bench: choice(0.98, 1.04, 1)}, "At all 3 sizes and directions, its choice for pageable memory was within 5 % or a microsecond of the faster of plain and staged."},
		{"a call slower", choiceHeld, Report{Bench: choice(0.9, 1.09)}, "At all 2 sizes"},
		{"a bad choice", choiceHeld, Report{Bench: choice(1, 1.5, 1.2)}, "missed at 2 of 3 sizes and directions. There it was over 5 % and over a microsecond slower than the faster of plain and staged. The worst case: 2 KiB to the host took 15.0 µs; staged would have taken 10.0 µs"},
		{"no choices", choiceHeld, Report{}, ""},

		{"noise", noisy, Report{Bench: rates(bulk("pinned", "h2d", 50, 49, 51), bulk("pageable", "both", 10, 7, 12))}, "(pageable memory, both ways) ranged from 7.00 to 12.0 GB/s"},
		{"quiet", noisy, Report{Bench: rates(bulk("pinned", "h2d", 50, 49, 51))}, ""},
	} {
		a, ok := c.rule(&c.r)
		text := a.Do + " " + a.Because
		if ok != (c.say != "") || ok && !strings.Contains(text, c.say) {
			t.Errorf("%s: %t, %q, want %q", c.name, ok, text, c.say)
		}
		if ok && (a.Do == "" || !strings.HasSuffix(a.Do, ".") || !strings.HasSuffix(a.Because, ".")) {
			t.Errorf("%s: %+v is no advice", c.name, a)
		}
	}
}

// Every rule is in the list, once.
func TestAdviceOfFullReport(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range full(t).advice() {
		if seen[a.Do] {
			t.Errorf("%q is said twice", a.Do)
		}
		seen[a.Do] = true
	}
	for _, want := range []string{"Copy large pageable memory through Pinion.", "Merge copies below 1 MiB.", "Copy in both directions at once.",
		"Allocate pinned memory from a pool.", "Move scattered blocks with a kernel.", "Do not time the first copy.",
		"Let Pinion choose the path.", "Measure again on a quiet machine.", "Up to 16 KiB, any path will do."} {
		if !seen[want] {
			t.Errorf("%q is not said; %v", want, fmt.Sprint(seen))
		}
	}
}
