package top

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/screen"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
)

var update = flag.Bool("update", false, "write the golden screens anew")

const (
	gib    = 1 << 30
	mib    = 1 << 20
	nobody = "\x1b]0;pwned\a\x1b[2J\u202eevil\u200b\xff"
)

func known[T any](v T) *T { return &v }

// busy is a machine with two GPUs, of which one is lost, and four processes.
func busy() Look {
	before := monitor.Snapshot{
		MeasuredAt: time.Date(2026, 11, 23, 14, 3, 20, 0, time.UTC), Seconds: 60, PID: 4711, Command: "python3",
		VRAM: []monitor.VRAM{{
			Device: "cuda:0", Pools: 2, ReservedBytes: 36 * gib, AllocatedBytes: 31 * gib, FreeBytes: 5 * gib, FragmentedBytes: 300 * mib, Retries: 3,
			Purposes: []monitor.Purpose{{Purpose: "weights", AllocatedBytes: 10 * gib}, {Purpose: "activations", AllocatedBytes: 20 * gib},
				{Purpose: nobody, AllocatedBytes: gib}, {Purpose: "workspace"}},
		}},
		Pinned:   []monitor.Pinned{{Device: "cuda:0", Pools: 1, ReservedBytes: 4 * gib, ActiveBytes: 3 * gib, PageableBytes: 512 * mib}},
		Transfer: []monitor.Transfer{{Device: "cuda:0", Engines: 1, Waiting: 3, Traffic: []monitor.Traffic{{Direction: "h2d", Path: "kernel", Active: 1}, {Direction: "h2d", Path: "plain"}, {Direction: "d2h", Path: "staged"}}}},
		Tier: []monitor.Tier{{Device: "cuda:0", Stores: 1, Levels: []monitor.Level{
			{Tier: "device", UsedBytes: 18 * gib, BudgetBytes: 20 * gib}, {Tier: "host", UsedBytes: 40 * gib, BudgetBytes: 64 * gib}, {Tier: "file", UsedBytes: 100 * gib}}}},
		Loader: []monitor.Loader{{Device: "cuda:0", Loaders: 1, Devices: 1, Workers: 8, Slabs: 5, Reading: 4, HostBytes: 200 * mib, DeviceBytes: 600 * mib,
			Stages: []monitor.Stage{{Stage: "read", Where: "worker"}, {Stage: "decode", Where: "worker"}, {Stage: "idle", Where: "worker"}, {Stage: "h2d", Where: "device"}}}},
		Foreign: []monitor.Foreign{{Source: "pytorch", Device: "cuda:0", ReservedBytes: 12 * gib, AllocatedBytes: 11 * gib, OutOfMemory: 1}},
	}
	now := before.Since(before) // a copy
	now.MeasuredAt = before.MeasuredAt.Add(2 * time.Second)
	now.Transfer[0].Traffic[0].Bytes, now.Transfer[0].Traffic[1].Bytes, now.Transfer[0].Traffic[2].Bytes = 80e9, 6e9, 1e6
	now.Tier[0].UseBytes, now.Tier[0].MissBytes, now.Tier[0].FillBytes, now.Tier[0].WaitSeconds, now.Tier[0].Evictions = 100*gib, 2*gib, 8e9, 0.5, 12
	l := &now.Loader[0]
	l.Samples, l.Batches, l.H2DBytes, l.DeviceWaitSeconds, l.FailedSamples = 3700, 58, 2e9, 1.26, 1
	l.Stages[0].Seconds, l.Stages[1].Seconds, l.Stages[2].Seconds, l.Stages[3].Seconds = 1, 14.4, 0.1, 0.08
	l.FailedSamples = 1

	var looker Looker
	looker.before = map[string]memory{}
	training := Process{PID: 4711, Command: "/usr/bin/python3 train.py --epochs 90", CPURatio: known(7.61), ResidentBytes: 12 * gib, Snapshot: &now}
	d := now.Since(before)
	training.delta, training.Links, training.Loaders = &d, links(d), loaders(all(d))
	training.Snapshot.Foreign = before.Foreign

	first := before
	first.VRAM, first.Pinned, first.Tier, first.Foreign, first.Transfer = nil, nil, nil, nil, nil
	return Look{
		Record: provenance.Record{CPUs: 16}, At: time.Date(2026, 11, 23, 14, 3, 22, 0, time.UTC), Seconds: 2,
		Machine: Machine{CPUBusyFraction: known(0.51), LoadAverages: []float64{8.1, 7.95, 3}, MemoryLimitBytes: 256 * gib, MemoryAvailableBytes: 100 * gib},
		GPUs: []GPU{{
			Name: "NVIDIA H200", MemoryTotalBytes: 141 * gib, MemoryUsedBytes: 52 * gib, BusyFraction: known(0.92), H2DGBPerS: known(43.5), D2HGBPerS: known(0.0005),
			Link:         &cli.LinkRow{Kind: "PCIe", Generation: 4, Width: 16, MaxGeneration: 5, MaxWidth: 16},
			TemperatureC: 61, PowerWatts: 412.4, PowerLimitWatts: 700, SlowReason: "power limit",
			Processes: []GPUProcess{{PID: 4711, Command: "/usr/bin/python3 train.py", UsedBytes: known[int64](50 * gib), BusyFraction: known(0.9)}, {PID: 7}},
		}, {Index: 1, Name: nobody, Reason: "nvmlDeviceGetMemoryInfo: the GPU is lost (15)"}},
		Processes: []Process{
			{PID: 99, Command: "stuck", SnapshotReason: "it does not answer for 1s: it may be stopped"},
			training,
			{PID: 12, Foreign: true, Command: nobody, Snapshot: &first},
			{PID: 13, Command: "pinion replay trace.json", Snapshot: &monitor.Snapshot{}},
		},
		NotAvailable: []Missing{{"processes", "monitor: unsafe folder: /tmp/pinion-1000 is of user 7"}},
	}
}

func plain(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(l.Text, " ") + "\n")
	}
	return b.String()
}

// The screens of a busy machine, and of one without anything, at three widths.
func TestGolden(t *testing.T) {
	idle := Look{Record: provenance.Record{CPUs: 2}, At: busy().At, Machine: Machine{MemoryLimitBytes: 24 * gib, MemoryAvailableBytes: 20 * gib}}
	for name, look := range map[string]Look{"busy": busy(), "idle": idle} {
		for _, width := range []int{45, 80, 120} {
			v := View{Look: look, Host: "node-7", User: "ada", Every: time.Second}
			got := plain(v.Lines(width, 0))
			path := filepath.Join("testdata", fmt.Sprintf("%s-%d.txt", name, width))
			if *update {
				testkit.OK(t, os.WriteFile(path, []byte(got), 0o644))
			}
			if want := testkit.ReadFile(t, path); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
			}
		}
	}
}

// Whatever the size, a screen has as many lines as it should, none is too wide, and
// nothing in them is more than text.
func TestAnySize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		v := View{Look: busy(), Host: nobody, User: nobody, Note: nobody, Order: Order(r.IntN(int(orders))), Paused: r.IntN(2) == 0, Every: time.Second}
		if r.IntN(4) == 0 {
			v.Look.Processes = nil
		}
		v.Offset = r.IntN(100) - 20
		width, height := 1+r.IntN(150), 1+r.IntN(60)
		lines := v.Lines(width, height)
		if len(lines) != height {
			t.Fatalf("%d lines for a height of %d", len(lines), height)
		}
		for _, l := range lines {
			if n := uniseg.StringWidth(l.Text); n > width {
				t.Errorf("%d columns of %d: %q", n, width, l.Text)
			}
			for _, c := range l.Text {
				if !unicode.IsPrint(c) {
					t.Errorf("%q in %q", c, l.Text)
				}
			}
		}
	}
}

// Keys scroll within bounds, pause, sort and end.
func TestKeys(t *testing.T) {
	v := View{Look: busy(), Host: "x"}
	const height = 20
	top := func() string { return v.Lines(80, height)[4].Text }
	first := top()
	for _, c := range []struct {
		key    screen.Key
		offset func(most int) int
	}{
		{screen.Up, func(int) int { return 0 }}, {screen.Down, func(int) int { return 1 }}, {'j', func(int) int { return 2 }},
		{'k', func(int) int { return 1 }}, {screen.PageDown, func(int) int { return 16 }}, {screen.End, func(most int) int { return most }},
		{screen.PageDown, func(most int) int { return most }}, {screen.PageUp, func(most int) int { return most - 15 }},
		{screen.Home, func(int) int { return 0 }}, {screen.PageUp, func(int) int { return 0 }},
	} {
		if !v.press(c.key, height) {
			t.Fatalf("%v ends", c.key)
		}
		all := View{Look: v.Look, Host: "x"}
		most := len(all.Lines(80, 0)) - height + 1
		if top(); v.Offset != c.offset(most) {
			t.Errorf("behind %v at %d, not %d", c.key, v.Offset, c.offset(most))
		}
	}
	if top() != first {
		t.Error("Home is not the beginning")
	}
	v.press('p', height)
	if !v.Paused || !strings.Contains(plain(v.Lines(80, height)), "paused") {
		t.Error("not paused")
	}
	var orders []string
	for range 4 {
		v.press('s', height)
		var pids []string
		for _, l := range v.Lines(80, 0) {
			if l.Style == Heading && !strings.HasPrefix(l.Text, "GPU") {
				pids = append(pids, strings.Fields(l.Text)[0])
			}
		}
		orders = append(orders, strings.Join(pids, " "))
	}
	if want := "[4711 99 12 13 4711 99 12 13 12 13 99 4711 4711 12 99 13]"; fmt.Sprint(orders) != want {
		t.Errorf("%v, want %s", orders, want)
	}
	for _, k := range []screen.Key{'q', 'Q', screen.Interrupt} {
		if v.press(k, height) {
			t.Errorf("%v does not end", k)
		}
	}
}

func TestEnded(t *testing.T) {
	before, now := Look{Processes: []Process{{PID: 1, path: "a", Command: "/x/y z"}, {PID: 2, path: "b"}}}, Look{Processes: []Process{{PID: 2, path: "b"}}}
	if got := ended(before, now); got != "ended: 1 y z" {
		t.Errorf("%q", got)
	}
	if got := ended(now, before); got != "" {
		t.Errorf("%q", got)
	}
}

func TestSummary(t *testing.T) {
	look := busy()
	got := look.Summary()
	if want := testkit.ReadFile(t, "testdata", "summary.txt"); got != want {
		if *update {
			testkit.OK(t, os.WriteFile(filepath.Join("testdata", "summary.txt"), []byte(got), 0o644))
		}
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := (&Look{At: look.At}).Summary(); !strings.Contains(got, "no process uses Pinion") {
		t.Errorf("%q", got)
	}
}

// A loader whose batch takes longer than the time between two looks is not said to be
// fast.
func TestLongBatch(t *testing.T) {
	d := monitor.Snapshot{Seconds: 1, Loader: []monitor.Loader{{Loaders: 1, Devices: 1, Workers: 2, Reading: 3,
		Stages: []monitor.Stage{{Stage: "decode", Where: "worker", Seconds: 1.9}}}}}
	l := loaders(all(d))[0]
	if l.Limit != "decode" || l.DeviceWaitFraction != 1 || l.Stages[0].BusyFraction != 0.95 {
		t.Errorf("%+v", l)
	}
	for range 2 {
		d.Loader[0].Ready = 1 // the program does not ask
		if l := loaders(all(d))[0]; l.Limit != "device" || l.DeviceWaitFraction != 0 {
			t.Errorf("%+v", l)
		}
		d.Loader[0].Stages = nil // nor do the workers do anything, then
	}
	d.Loader[0].Ready, d.Loader[0].Reading = 0, 0
	if l := loaders(all(d))[0]; l.Limit != "" {
		t.Errorf("%+v", l)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "a\nb\tc\u00a0d": "a b c d", "\x1b[31mred\x00\x7f": "?[31mred??", "\u202eabc\u2066": "?abc?", "a\xffb": "a\uFFFDb",
		"日本é": "日本é", strings.Repeat("x", 300): strings.Repeat("x", 256) + "…",
	} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := (Line{"x", Warning}).ANSI(false); got != "\x1b[1mx\x1b[0m" {
		t.Errorf("%q", got)
	}
}

// A note goes after a while, also where the view is paused: it hides the keys.
func TestNoteGoes(t *testing.T) {
	v, at := NewView(time.Second), time.Unix(1e9, 0)
	p := Process{PID: 7, Command: "train", path: "7.sock"}
	v.take(Look{At: at, Processes: []Process{p}})
	v.Paused = true
	v.take(Look{At: at.Add(time.Second)})
	if !strings.Contains(v.Note, "ended: 7 train") || len(v.Look.Processes) != 1 {
		t.Errorf("%q %+v", v.Note, v.Look.Processes)
	}
	v.take(Look{At: at.Add(2 * time.Second)})
	if v.Note == "" {
		t.Error("the note went at once")
	}
	v.take(Look{At: at.Add(time.Second + noteTime + 1)})
	if v.Note != "" {
		t.Errorf("%q stays", v.Note)
	}
}

// all is what loaders did during the time that d is about.
func all(d monitor.Snapshot) (list []monitor.RecentLoader) {
	for _, l := range d.Loader {
		list = append(list, monitor.RecentLoader{Loader: l, Seconds: d.Seconds})
	}
	return list
}

// What a process tells may be absurd; a document can be written all the same.
func TestAbsurd(t *testing.T) {
	huge := []monitor.RecentLoader{{Seconds: 1e-9, Loader: monitor.Loader{
		Device: "x", Loaders: 1, Workers: 1, Samples: math.MaxInt64, H2DBytes: math.MinInt64, Batches: 1, DeviceWaitSeconds: math.Inf(1),
		Stages: []monitor.Stage{{Stage: "read", Where: "worker", Seconds: math.Inf(1)}, {Stage: "idle", Where: "worker", Seconds: math.Inf(-1)}, {Stage: "h2d", Where: "device", Seconds: math.MaxFloat64}},
	}}}
	_, err := json.Marshal(loaders(huge))
	testkit.OK(t, err)
}

// What to try depends on the machine.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		limit      string
		gpus, full bool
		want       string
	}{
		{"decode", true, false, "decoding: try more workers, smaller photos or JPEGs decoded on the GPU (--decode gpu)"},
		{"decode", false, true, "decoding, and all processors are busy: try smaller photos"},
		{"read", false, false, "reading: try more workers, a faster disk or shards (pinion pack)"},
		{"h2d", true, true, "the link: try bytes instead of floats or fewer of them"},
		{"device", true, true, "the program: batches are ready before it asks for them"},
		{"something new", true, true, "something new"},
	} {
		if got := advice(c.limit, c.gpus, c.full); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
