package benchcmd

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

func TestCalibrationPrint(t *testing.T) {
	curve := func(latency, rate float64) (c linkmodel.Curve) {
		for n := int64(16 << 10); n <= 256<<20; n *= 4 {
			c = append(c, linkmodel.Point{Bytes: n, Seconds: latency + float64(n)/rate})
		}
		return c
	}
	m := &linkmodel.Model{
		Machine: linkmodel.Machine{Device: "Test GPU", Link: "PCIe 5.0 x16"},
		Paths: []linkmodel.Path{
			{Path: "plain", Curve: curve(10e-6, 8e9)},
			{Path: "plain", ToHost: true, Curve: curve(10e-6, 12e9)},
			{Path: "staged", Copiers: 1, PastCaches: true, Curve: curve(12e-6, 9e9)},
		},
		Pinned:  []linkmodel.Path{{Path: "pinned", Curve: curve(8e-6, 55e9)}},
		Batches: []linkmodel.Batch{{Path: "kernel", Direction: "h2d", CallSeconds: 50e-6, Block: curve(2e-9, 51e9)}},
	}
	out := &calibrationOutput{Record: provenance.Record{}.On("cuda:0", "Test GPU"), File: "/cache/link.json", Seconds: 3, Model: m}
	for _, n := range []int64{1 << 10, 64 << 20} {
		for _, toHost := range []bool{false, true} {
			out.Choices = append(out.Choices, choiceOutput{n, directionText(toHost), m.Choice(n, toHost)})
		}
	}
	var text strings.Builder
	out.print(&text)
	const want = `cuda:0  Test GPU  PCIe 5.0 x16

Pageable memory, the path for each size:
  SIZE  DIRECTION       PATH    COPIERS  STORES          TIME   GB/s
 1 KiB  host to device  plain                         10.1 µs   0.10
 1 KiB  device to host  plain                         10.1 µs   0.10
64 MiB  host to device  staged        1  past caches  7.47 ms   8.99
64 MiB  device to host  plain                         5.60 ms  11.98

One copy, as latency + bytes / rate:
PATH                DIRECTION       LATENCY   GB/s
pinned              host to device  8.00 µs  55.00
pageable, plain     host to device  10.0 µs   8.00
pageable, plain     device to host  10.0 µs  12.00
pageable, 1 copier  host to device  12.0 µs   9.00

Blocks of pinned or device memory: GB/s by the size of a block, many at once
PATH    DIRECTION          CALL  4 KiB  16 KiB  64 KiB  256 KiB  1 MiB
kernel  host to device  50.0 µs   49.8    50.7    50.9     51.0   51.0

Measured in 3.00 s, kept in /cache/link.json
`
	if got := text.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
