package main

import (
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/managedbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// On the host the same calls work, and the output says that nothing migrates.
func TestBenchManaged(t *testing.T) {
	args := []string{"bench", "managed", "--device", "host:64MiB", "--size", "1MiB", "--repeats", "2"}
	r := pinion(t, args...)
	for _, want := range []string{"does not migrate", "HOST WRITES", "on demand", "pageable", "64 KiB", "1 MiB", "Not available: prefetched host to device"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	doc := document(t, []string{"device", "sizes_bytes", "repeats", "initialisation_seconds", "ways", "not_available"}, append(args, "--json")...)
	if doc["migration"] != "none" || len(doc["sizes_bytes"].([]any)) != 2 {
		t.Errorf("%v", doc)
	}
	for _, w := range doc["ways"].([]any) {
		for _, key := range []string{"way", "direction", "bytes", "seconds", "min_seconds", "max_seconds", "gb_per_s"} {
			if _, there := w.(map[string]any)[key]; !there {
				t.Errorf("no %q in %v", key, w)
			}
		}
	}
}

func TestBenchManagedUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		say  string
	}{
		{"--size 1000", exitUsage, "multiple of 64 KiB"},
		{"--size 0", exitUsage, "must be a size"},
		{"--repeats 0", exitUsage, "at least 1"},
		{"more", exitUsage, "more"},
		{"--device host:1MiB --size 1MiB", exitFailed, "1 MiB is too large"},
	} {
		r := pinion(t, append([]string{"bench", "managed"}, strings.Fields(c.args)...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.say) || r.stdout != "" {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, r.code, c.code, c.say, r.stdout, r.stderr)
		}
	}
}

func TestManagedOutput(t *testing.T) {
	row := func(way, direction string, bytes int64, took time.Duration) managedbench.Row {
		return managedbench.Row{Way: way, Direction: direction, Bytes: bytes, Median: took, Least: took / 2, Most: 2 * took}
	}
	out := newManagedOutput(provenance.Record{}, device.Info{ID: "cuda:0", Name: "GPU", Link: device.Link{Kind: "PCIe", Gen: 5, Width: 16, MaxGen: 5, MaxWidth: 16}},
		time.Second, &managedbench.Report{
			Migration: device.PageMigration, Sizes: []int64{1 << 20, 1 << 24}, Repeats: 7,
			SizeReason: "128 MiB of device memory are free, of which an eighth is used",
			Rows: []managedbench.Row{
				row(managedbench.OnDemand, "h2d", 1<<20, 200*time.Microsecond),
				row(managedbench.OnDemand, "h2d", 1<<24, 2*time.Millisecond),
				row(managedbench.Prefetched, "h2d", 1<<20, 100*time.Microsecond),
				row(managedbench.Prefetched, "h2d", 1<<24, 400*time.Microsecond),
				row(managedbench.OnDemand, "d2h", 1<<20, 300*time.Microsecond),
				row(managedbench.OnDemand, "d2h", 1<<24, 5*time.Millisecond),
			},
			Skipped: []managedbench.Skipped{{Way: managedbench.Pinned, Direction: "h2d", Why: device.ErrPinLimit}},
		})
	var b strings.Builder
	out.print(&b)
	const want = `cuda:0  GPU  PCIe 5.0 x16, 63 GB/s
managed memory migrates by pages
GB/s, median of 7 interleaved repeats
Smaller than the default: 128 MiB of device memory are free, of which an eighth is used

HOST WRITES, A KERNEL READS  1 MiB  16 MiB
on demand                     5.24    8.39
prefetched                    10.5    41.9

A KERNEL WRITES, HOST READS  1 MiB  16 MiB
on demand                     3.50    3.36

Not available: pinned host to device: page-locked memory limit reached
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	if w := out.Ways[0]; w.MinSeconds != 0.0001 || w.Seconds != 0.0002 || w.MaxSeconds != 0.0004 || out.NotAvailable[0].Way != "pinned" {
		t.Errorf("%+v, %+v", w, out.NotAvailable)
	}
}
