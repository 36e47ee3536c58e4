package benchcmd

import (
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/managedbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

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
	if w := out.Ways[0]; w.MinSeconds != 0.0001 || w.Seconds != 0.0002 || w.MaxSeconds != 0.0004 || out.NotAvailable[0].Name != "pinned host to device" {
		t.Errorf("%+v, %+v", w, out.NotAvailable)
	}
}
