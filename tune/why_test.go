package tune

import (
	"math"
	"strings"
	"testing"
	"time"
)

// What limits a pipeline is found, and said with its numbers.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		kind string
		more func(*fake)
		want string
		say  string
	}{
		{"decode", nil, LimitDecode, "decoding on the device"},
		{"disk", nil, LimitRead, "faster disk"},
		{"link", func(f *fake) { f.pageable, f.decode, f.extra, f.pinned = 9e-5, 1e-6, 0, 8e-5 }, LimitLink, "GB/s while it copies"},
		{"transform", func(f *fake) { f.transform = 4e-3 }, LimitDevice, "transforming"},
		{"disk", func(f *fake) { f.read, f.disk, f.decode, f.extra = 1e-5, 0, 1e-5, 3e-3 }, LimitOverhead, "own work"},
		{"decode", func(f *fake) { f.odd = func(Setting) float64 { return 0.2 } }, LimitLatency, "no part is busy for half of the time (the link"},
	} {
		f := newFake(c.kind, 1)
		if c.more != nil {
			c.more(f)
		}
		r := find(t, f, grid, SearchOptions{})
		if text := strings.Join(r.Why(), "\n"); r.Limit.Name != c.want || !strings.Contains(text, c.say) {
			t.Errorf("%s: %v, want %s and %q:\n%s", c.kind, r.Limit, c.want, c.say, text)
		}
	}
}

// Files that a decoder fetches itself do not count as copied over the link in no
// time.
func TestLinkOfDecoder(t *testing.T) {
	m := Measurement{Elapsed: time.Second, Samples: 100, LinkBytes: 1e6, Stages: []Stage{{link, onDevice, time.Millisecond}}}
	for _, c := range []struct {
		decoding time.Duration
		want     float64
	}{{0, 1e9}, {time.Second / 2, 0}} {
		m.Stages = append(m.Stages[:1], Stage{"decode on device", onDevice, c.decoding})
		if l := loads(m, Setting{Workers: 1}, nil)[0]; l.Name != link || math.Abs(1e9*l.GBPerS-c.want) > 1 {
			t.Errorf("with %v of decoding: %+v, want %g bytes a second", c.decoding, l, c.want)
		}
	}
}

func TestWhy(t *testing.T) {
	r := &Result{
		Best: Setting{Workers: 8, Batch: 64, Prefetch: 2, Pin: true}, PerSecond: 6000, Memory: Memory{PinnedBytes: 28901376, HostBytes: 28901376},
		Limit: Limit{LimitDecode, worker, 0.97}, GridSize: 56, Error: 0.04,
		Stages: []StageLoad{
			{Name: "decode", Where: worker, Seconds: 1.2e-3, Alone: 1e-3, Most: 6667, Busy: 0.9},
			{Name: "resize", Where: worker},
			{Name: link, Where: "device", Seconds: 3e-6, Alone: 3e-6, Most: 333333, Busy: 0.018, GBPerS: 50.2},
		},
		Settings: []Row{
			{Setting: Setting{Workers: 8, Batch: 64, Prefetch: 2, Pin: true}, PerSecond: 6000, Final: true, Trials: 9, Score: 5950, Memory: Memory{PinnedBytes: 28901376}},
			{Setting: Setting{Workers: 16, Batch: 64, Prefetch: 8, Pin: true}, PerSecond: 5900, Final: true, Trials: 9, Score: 6069, Memory: Memory{PinnedBytes: 86704128}},
			{Setting: Setting{Workers: 32, Batch: 64, Prefetch: 8, Pin: true}, PerSecond: 7000, Trials: 1},
		},
		// One trial that something disturbed; the stages above are of many.
		Model: Model{Variants: []Variant{{Pin: true, Stages: []StageCost{{"decode", worker, []Value{{1, 1e-3}, {8, 1}}}}}}},
	}
	const want = `Decoding is the limit: workers are busy 97.0 % of the time, mostly decoding. More processors, smaller images, or decoding on the device would help.
decode: 1.20 ms per sample in each of 8 workers (1.00 ms with one), at most 6667 samples/s, 90.0 % of their time.
h2d: 3.00 µs per sample, at most 333333 samples/s, 1.8 % of the time, 50.20 GB/s while it copies.
8 workers do the work of 6.7 without contention.
The fastest of the last race, 16 workers, batch 64, prefetch 8, pinned, is 2.0 % faster than the choice, but takes 82.7 MiB of pinned memory, the choice 27.6 MiB.`
	if got := strings.Join(r.Why(), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// What is not settled says so, and never with an error that is not known.
func TestDoubt(t *testing.T) {
	for want, r := range map[string]Result{
		"": {Settled: true, Error: 0.04},
		"Not settled: trials of one setting differ by more than the settings do (the rate of the choice is known to ± 4.0 %). Treat the choice as a guess: other programs may use the machine, or the budget is too short.": {Error: 0.04},
		"Not settled: there was no time for more than a few trials. Treat the choice as a guess: other programs may use the machine, or the budget is too short.":                                                           {},
	} {
		if got := r.Doubt(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		s           Setting
		text        string
		goes, torch string
	}{
		{Setting{Workers: 8, Batch: 64, Prefetch: 2, Pin: true}, "8 workers, batch 64, prefetch 2, pinned",
			"loader.Options{Batch: 64, Workers: 8, Prefetch: 2, Pin: loader.PinAlways}",
			"DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=True, prefetch_factor=2, persistent_workers=True)"},
		{Setting{Workers: 8, Batch: 64, Prefetch: 2, Copiers: 8, ChunkBytes: 2 << 20}, "8 workers, batch 64, prefetch 2, pageable, 8 copiers, chunks of 2 MiB",
			"loader.Options{Batch: 64, Workers: 8, Prefetch: 2, Pin: loader.PinNever, Copiers: 8, ChunkBytes: 2 << 20}",
			"DataLoader(dataset, batch_size=64, shuffle=True, num_workers=8, pin_memory=False, prefetch_factor=2, persistent_workers=True)"},
		{Setting{Workers: 2, Batch: 64, Prefetch: 2, Copiers: 1, ChunkBytes: 512 << 10, Decode: "cpu"}, "2 workers, batch 64, prefetch 2, pageable, 1 copier, chunks of 512 KiB, decoded on cpu",
			"loader.Options{Batch: 64, Workers: 2, Prefetch: 2, Pin: loader.PinNever, Copiers: 1, ChunkBytes: 512 << 10, Decode: loader.DecodeCPU}",
			"DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2, pin_memory=False, prefetch_factor=2, persistent_workers=True)"},
		{Setting{Workers: 2, Batch: 64, Prefetch: 2, ChunkBytes: 1000}, "2 workers, batch 64, prefetch 2, pageable, chunks of 1000 B",
			"loader.Options{Batch: 64, Workers: 2, Prefetch: 2, Pin: loader.PinNever, ChunkBytes: 1000}",
			"DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2, pin_memory=False, prefetch_factor=2, persistent_workers=True)"},
		{Setting{Workers: 1, Batch: 5, Prefetch: 8, Decode: "gpu"}, "1 worker, batch 5, prefetch 8, pageable, decoded on gpu",
			"loader.Options{Batch: 5, Workers: 1, Prefetch: 8, Pin: loader.PinNever, Decode: loader.DecodeGPU}",
			"DataLoader(dataset, batch_size=5, shuffle=True, num_workers=1, pin_memory=False, prefetch_factor=8, persistent_workers=True)"},
	} {
		if c.s.String() != c.text || c.s.Go() != c.goes || c.s.PyTorch() != c.torch {
			t.Errorf("%v\n%s\n%s", c.s, c.s.Go(), c.s.PyTorch())
		}
	}
}

// A DataLoader's workers decode: its line is that of a setting in which workers
// do.
func TestPyTorchDecodes(t *testing.T) {
	r := &Result{Best: Setting{Workers: 2, Batch: 64, Prefetch: 8, Decode: "gpu"}, Settings: []Row{
		{Setting: Setting{Workers: 2, Batch: 64, Prefetch: 8, Decode: "gpu"}, Trials: 3, PerSecond: 40000},
		{Setting: Setting{Workers: 8, Batch: 64, Prefetch: 4, Decode: "cpu"}, Trials: 3, PerSecond: 8000},
		{Setting: Setting{Workers: 16, Batch: 64, Prefetch: 4, Pin: true, Decode: "cpu"}, Predicted: 15000},
		{Setting: Setting{Workers: 32, Batch: 64, Prefetch: 4, Decode: "cpu"}, Predicted: 16000, Refused: "no room"},
	}}
	const want = "DataLoader(dataset, batch_size=64, shuffle=True, num_workers=16, pin_memory=True, prefetch_factor=2, persistent_workers=True)"
	if line := r.PyTorch(); line != want {
		t.Errorf("%s, want %s", line, want)
	}
	r.Best = r.Settings[1].Setting
	if line := r.PyTorch(); line != r.Best.PyTorch() {
		t.Error(line)
	}
}

// A stage is never busy for longer than there was time, also where more of it
// was counted.
func TestBusyAtMostAlways(t *testing.T) {
	m := Measurement{Elapsed: time.Second, Samples: 10, Stages: []Stage{{"transform", onDevice, 1100 * time.Millisecond}, {link, onDevice, 500 * time.Millisecond}}}
	stages := loads(m, Setting{Workers: 1}, nil)
	if len(stages) != 2 || stages[0].Busy != 1 || stages[1].Busy != 0.5 {
		t.Errorf("%+v", stages)
	}
}
