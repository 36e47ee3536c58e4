package benchcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

// fixedCollectives is a run as it might be.
func fixedCollectives() *collectivesRun {
	timing := func(mean, single, algorithm, bus float64) *collbench.Timing {
		return &collbench.Timing{Mean: mean, Single: single, Algorithm: algorithm, Bus: bus}
	}
	const mib = 1 << 20
	return &collectivesRun{
		info: device.Info{ID: "host", Name: "host memory"},
		Report: &collbench.Report{
			Options: collbench.Options{Max: 256 * mib, Repeats: 20, Warmup: 5, Type: dtype.BF16},
			World:   launch.World{Launcher: "openmpi", Size: 4}, Hosts: 2,
			Rows: []collbench.Row{
				{Operation: collbench.AllReduce, Bytes: 8, Apart: timing(1.5e-6, 2.25e-6, 12e6, 18e6), InPlace: timing(1.25e-6, 2e-6, 14e6, 21e6)},
				{Operation: collbench.AllReduce, Bytes: 256 * mib, Apart: timing(0.125, 0, 2.125e9, 3.25e9), InPlace: timing(0.0625, 0, 4.25e9, 6.5e9),
					Wrong: "all-reduce of 256 MiB, rank 2: byte 4 of 268,435,456"},
				{Operation: collbench.Broadcast, Bytes: 4096, InPlace: timing(12.8e-6, 15e-6, 320e6, 320e6)},
			},
		},
	}
}

func TestCollectivesText(t *testing.T) {
	const want = `host  host memory
4 ranks, started by openmpi on 2 hosts
TIME of a call, back to back, and of a SINGLE one in µs; ALG and BUS in GB/s

all-reduce, sum of bf16; BUS is 1.50 of ALG
   SIZE    TIME  SINGLE   ALG   BUS  IN PLACE  SINGLE   ALG   BUS  OK
    8 B    1.50    2.25  0.01  0.02      1.25    2.00  0.01  0.02  yes
256 MiB  125000          2.12  3.25     62500          4.25  6.50  WRONG

broadcast; BUS is 1.00 of ALG
 SIZE  IN PLACE  SINGLE   ALG   BUS  OK
4 KiB      12.8    15.0  0.32  0.32  yes
`
	r := fixedCollectives()
	var b strings.Builder
	r.output().print(&b)
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if err := r.wrong(); err == nil || err.Error() != "1 of 3 rows gave wrong values, the first: all-reduce of 256 MiB, rank 2: byte 4 of 268,435,456" {
		t.Error(err)
	}
	r.World.Launcher, r.SizeReason, r.Rows = "", "there is little", r.Rows[2:]
	b.Reset()
	out := r.output()
	out.Report = "page.html"
	out.print(&b)
	for _, line := range []string{"4 ranks, goroutines of this process; mpirun -n 4 would start processes\n", "Smaller than the default: there is little\n", "\nReport: page.html\n"} {
		if !strings.Contains(b.String(), line) {
			t.Errorf("%q is missing in\n%s", line, b.String())
		}
	}
	if err := r.wrong(); err != nil {
		t.Error(err)
	}
}

func TestCollectivesJSON(t *testing.T) {
	text, err := json.Marshal(fixedCollectives().output())
	if err != nil {
		t.Fatal(err)
	}
	const want = `"device":"host","device_name":"host memory","ranks":4,"hosts":2,"launcher":"openmpi","dtype":"bf16","reduction":"sum","size_bytes":268435456,"repeats":20,"warmup_calls":5,"rows":[` +
		`{"operation":"all-reduce","bytes":8,"ok":true,"bus_ratio":1.5,` +
		`"out_of_place":{"mean_seconds":0.0000015,"single_seconds":0.00000225,"algorithm_gb_per_s":0.012,"bus_gb_per_s":0.018},` +
		`"in_place":{"mean_seconds":0.00000125,"single_seconds":0.000002,"algorithm_gb_per_s":0.014,"bus_gb_per_s":0.021}},` +
		`{"operation":"all-reduce","bytes":268435456,"ok":false,"bus_ratio":1.5,` +
		`"out_of_place":{"mean_seconds":0.125,"algorithm_gb_per_s":2.125,"bus_gb_per_s":3.25},` +
		`"in_place":{"mean_seconds":0.0625,"algorithm_gb_per_s":4.25,"bus_gb_per_s":6.5}},` +
		`{"operation":"broadcast","bytes":4096,"ok":true,"bus_ratio":1,` +
		`"in_place":{"mean_seconds":0.0000128,"single_seconds":0.000015,"algorithm_gb_per_s":0.32,"bus_gb_per_s":0.32}}]}`
	if !strings.HasSuffix(string(text), want) {
		t.Errorf("%s\nwant\n…%s", text, want)
	}
}
