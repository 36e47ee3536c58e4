package viz

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/vram"
)

type chromeFile struct {
	OtherData struct {
		Device        string
		DroppedEvents int64 `json:"dropped_events"`
	}
	TraceEvents []struct {
		Name string
		Ph   string
		Ts   *float64
		Pid  *int
		Args map[string]any
	}
}

// TestChrome compares the counters with the model, sample by sample.
func TestChrome(t *testing.T) {
	snapshots(func(name string, m *model, s vram.Snapshot) bool {
		return t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := WriteChrome(&out, s); err != nil {
				t.Fatal(err)
			}
			var file chromeFile
			if err := json.Unmarshal(out.Bytes(), &file); err != nil {
				t.Fatal(err)
			}
			if file.OtherData.Device != "cuda:1" || file.OtherData.DroppedEvents != s.Dropped {
				t.Errorf("%+v", file.OtherData)
			}
			want := counters(m, s)
			got := []counter{}
			last := 0.0
			failures := 0
			for _, e := range file.TraceEvents {
				if e.Pid == nil {
					t.Fatalf("%+v has no process", e)
				}
				switch e.Ph {
				case "M":
					continue
				case "i":
					failures++
				case "C":
					if len(e.Args) != 1 {
						t.Errorf("%+v", e)
					}
					got = append(got, counter{e.Name, *e.Ts, e.Args["bytes"].(float64)})
				default:
					t.Errorf("phase %q", e.Ph)
				}
				if *e.Ts < last {
					t.Errorf("%v behind %v", *e.Ts, last)
				}
				last = *e.Ts
			}
			if len(got) != len(want) {
				t.Fatalf("%d samples, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("sample %d: %v, want %v", i, got[i], want[i])
				}
			}
			for _, e := range s.Events {
				if e.Kind == vram.EventOutOfMemory {
					failures--
				}
			}
			if failures != 0 {
				t.Errorf("%d failures too many", failures)
			}
		})
	})
}

type counter struct {
	name      string
	at, bytes float64
}

func counters(m *model, s vram.Snapshot) (out []counter) {
	at := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	add := func(name string, d time.Duration, n int64) { out = append(out, counter{name, at(d), float64(n)}) }
	first := len(m.events) - len(s.Events)
	before := sample{}
	if first > 0 {
		before = m.totals[first-1]
	}
	end := s.Time.Sub(s.Start)
	begin := end
	if len(s.Events) > 0 {
		begin = s.Events[0].Time
	}
	add("allocated", begin, before.allocated)
	add("reserved", begin, before.reserved)
	for p, n := range before.purposes {
		if n > 0 {
			add(vram.Purpose(p).String(), begin, n)
		}
	}
	for i, e := range s.Events {
		now := m.totals[first+i]
		switch e.Kind {
		case vram.EventAlloc, vram.EventFree:
			add("allocated", e.Time, now.allocated)
			add(e.Purpose.String(), e.Time, now.purposes[e.Purpose])
		case vram.EventMap, vram.EventUnmap:
			add("reserved", e.Time, now.reserved)
		}
	}
	if end > begin {
		now := m.sample()
		add("allocated", end, now.allocated)
		add("reserved", end, now.reserved)
	}
	return out
}

// failing takes so many bytes.
type failing int

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if *f -= failing(len(p)); *f < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteError wants the error of the writer, wherever it comes.
func TestWriteError(t *testing.T) {
	m := newModel(3)
	for len(m.events) < 3000 {
		m.step()
	}
	s := m.snapshot(1 << 20)
	for name, write := range map[string]func(*failing) error{
		"torch":  func(f *failing) error { return WriteTorch(f, s) },
		"chrome": func(f *failing) error { return WriteChrome(f, s) },
		"json":   func(f *failing) error { return WriteJSON(f, s) },
	} {
		for _, room := range []failing{0, 100, 100_000} {
			if err := write(&room); !errors.Is(err, errFull) {
				t.Errorf("%s: %v", name, err)
			}
		}
		room := failing(1 << 30)
		if err := write(&room); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		0:                        {"0.000", "0.000000000"},
		1:                        {"0.001", "0.000000001"},
		-1:                       {"-0.001", "-0.000000001"},
		-1500 * time.Millisecond: {"-1500000.000", "-1.500000000"},
		90 * time.Second:         {"90000000.000", "90.000000000"},
	} {
		if got := [2]string{micros(d).String(), seconds(d).String()}; got != want {
			t.Errorf("%v: %v, want %v", d, got, want)
		}
	}
}
