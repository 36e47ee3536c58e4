package linkmodel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// emptyCache gives the test a cache directory of its own.
func emptyCache(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir) // Linux
	t.Setenv("HOME", dir)           // macOS
	t.Setenv("LocalAppData", dir)   // Windows
	return dir
}

// described is a device of which only the description matters.
type described struct {
	device.Device
	info device.Info
}

func (d described) Info() device.Info { return d.info }

func openNamed(_ *testing.T, change func(*device.Info)) device.Device {
	d := described{info: device.Info{ID: "test:0", Backend: "test", Name: "test"}}
	if change != nil {
		change(&d.info)
	}
	return d
}

// measured is a model for dev with something in every field.
func measured(dev device.Device) *Model {
	m := randomModel(rand.New(rand.NewPCG(7, 8)), 0.1)
	m.Machine = MachineOf(dev)
	m.MeasuredAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m.Pinned = []Path{{Path: "pinned", Curve: line(5e-6, 50e9, 16<<10, 1<<20)}}
	m.Batches = []Batch{
		{"kernel", "h2d", 1e-5, line(1e-9, 50e9, 4<<10, 1<<20)}, {"loop", "d2d", 0, line(2e-6, 1e12, 4<<10, 1<<20)},
	}
	return m
}

func TestModelRoundTrip(t *testing.T) {
	emptyCache(t)
	dev := openNamed(t, func(i *device.Info) {
		i.Name, i.UUID, i.DriverVersion = `a "device" <&> \ Ω`, "GPU-1", "13.0"
		i.Link = device.Link{Kind: "PCIe", MaxGen: 5, MaxWidth: 16}
	})
	want := measured(dev)
	path, err := want.Save(dev)
	if err != nil {
		t.Fatal(err)
	}
	if expected, err := File(dev); err != nil || path != expected {
		t.Errorf("saved in %s, want %s (%v)", path, expected, err)
	}
	got, err := Load(dev)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, saved %+v", got, want)
	}
	// The next one replaces it, and leaves nothing else.
	want.MeasuredAt = want.MeasuredAt.Add(time.Hour)
	if _, err := want.Save(dev); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(dev); err != nil || !got.MeasuredAt.Equal(want.MeasuredAt) {
		t.Errorf("measured at %v (%v), want %v", got, err, want.MeasuredAt)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("%v in the directory (%v)", files, err)
	}
}

// refused checks that dev has no model, for a reason that names what is wrong.
func refused(t *testing.T, dev device.Device, reason string) {
	t.Helper()
	m, err := Load(dev)
	if m != nil || !errors.Is(err, ErrNoModel) {
		t.Fatalf("%v, want %q", err, ErrNoModel)
	}
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("%q does not say %q", err, reason)
	}
}

func TestModelFileRefused(t *testing.T) {
	base := openNamed(t, nil)
	path := func(p Path) func(*Model) { return func(m *Model) { m.Paths = append(m.Paths, p) } }
	for _, c := range []struct {
		name   string
		change func(*Model)
		write  func(good []byte) []byte
		reason string
	}{
		{name: "empty", write: func([]byte) []byte { return nil }, reason: "unexpected end"},
		{name: "truncated", write: func(b []byte) []byte { return b[:len(b)/2] }, reason: "unexpected end"},
		{name: "without its last byte", write: func(b []byte) []byte { return bytes.TrimSpace(b)[:len(bytes.TrimSpace(b))-1] }, reason: "unexpected end"},
		{name: "two in one", write: func(b []byte) []byte { return append(b, b...) }, reason: "after top-level value"},
		{name: "huge", write: func(b []byte) []byte { return append(b, bytes.Repeat([]byte{' '}, 1<<20)...) }, reason: "more than 1048576 bytes"},
		{name: "null", write: func([]byte) []byte { return []byte("null") }, reason: "version 0"},
		{name: "not JSON", write: func([]byte) []byte { return []byte("\x00\xff") }, reason: "invalid character"},
		{name: "another document", write: func([]byte) []byte { return []byte(`{"paths": 3}`) }, reason: "paths"},
		{name: "beyond a float", write: func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"seconds": `), []byte(`"seconds": 1e999, "s": `), 1)
		}, reason: "1e999"},
		{name: "older version", change: func(m *Model) { m.Version-- }, reason: fmt.Sprintf("version %d, not %d", Version-1, Version)},
		{name: "newer version", change: func(m *Model) { m.Version++ }, reason: fmt.Sprintf("version %d, not %d", Version+1, Version)},
		{name: "negative copiers", change: path(Path{Path: "staged", Copiers: -1}), reason: "-1 copiers"},
		{name: "hostile copiers", change: path(Path{Path: "staged", Copiers: math.MaxInt}), reason: "copiers"},
		{name: "no bytes", change: path(Path{Path: "staged", Curve: Curve{{0, 1}}}), reason: "0 bytes"},
		{name: "negative bytes", change: path(Path{Path: "staged", Curve: Curve{{-5, 1}}}), reason: "-5 bytes"},
		{name: "no time", change: path(Path{Path: "staged", Curve: Curve{{5, 0}}}), reason: "in 0 s"},
		{name: "negative time", change: path(Path{Path: "staged", Curve: Curve{{5, -1}}}), reason: "in -1 s"},
		{name: "unsorted", change: path(Path{Path: "staged", Curve: Curve{{5, 1}, {4, 1}}}), reason: "4 bytes"},
		{name: "the same size twice", change: path(Path{Path: "staged", Curve: Curve{{5, 1}, {5, 2}}}), reason: "after 5 bytes"},
		{name: "pinned, unsorted", change: func(m *Model) { m.Pinned[0].Curve = Curve{{5, 1}, {4, 1}} }, reason: "path pinned"},
		{name: "negative call", change: func(m *Model) { m.Batches[0].CallSeconds = -1 }, reason: "batch path kernel"},
		{name: "negative block", change: func(m *Model) { m.Batches[0].Block[1].Seconds = -1 }, reason: "batch path kernel"},
		{name: "blocks, unsorted", change: func(m *Model) { m.Batches[1].Block = Curve{{5, 1}, {4, 1}} }, reason: "batch path loop"},
		{name: "another device", change: func(m *Model) { m.Machine.Device = "other" }, reason: "stale"},
		{name: "another UUID", change: func(m *Model) { m.Machine.UUID = "other" }, reason: "stale"},
		{name: "another driver", change: func(m *Model) { m.Machine.DriverVersion = "1" }, reason: "stale"},
		{name: "another link", change: func(m *Model) { m.Machine.Link = "PCIe 1.0 x1" }, reason: "stale"},
		{name: "another processor", change: func(m *Model) { m.Machine.Processor = "Z80" }, reason: "stale"},
		{name: "another number of processors", change: func(m *Model) { m.Machine.Processors++ }, reason: "stale"},
		{name: "another platform", change: func(m *Model) { m.Machine.Platform = "plan9/mips" }, reason: "stale"},
		{name: "other slots", change: func(m *Model) { m.Machine.SlotBytes *= 2 }, reason: "stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			emptyCache(t)
			m := measured(base)
			if c.change != nil {
				c.change(m)
			}
			path, err := m.Save(base)
			if err != nil {
				t.Fatal(err)
			}
			if c.write != nil {
				good, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, c.write(good), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			refused(t, base, c.reason)
		})
	}
	// Every field of Machine has had its turn.
	if n := reflect.TypeFor[Machine]().NumField(); n != 8 {
		t.Errorf("Machine has %d fields: test the others", n)
	}
}

func TestModelFileMissing(t *testing.T) {
	dir := emptyCache(t)
	dev := openNamed(t, nil)
	refused(t, dev, "does not exist")
	path, err := File(dev)
	if err != nil {
		t.Fatal(err)
	}
	// A directory where the file should be.
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	refused(t, dev, path)
	if _, err := measured(dev).Save(dev); err == nil {
		t.Error("saved over a directory")
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("a save that failed left %v", files)
	}
	// No cache directory at all.
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	refused(t, dev, "no model")
	if _, err := measured(dev).Save(dev); !errors.Is(err, ErrNoModel) {
		t.Errorf("saved nowhere: %v", err)
	}
	// A file where the directory should be.
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, file)
	}
	refused(t, dev, file)
	if _, err := measured(dev).Save(dev); err == nil {
		t.Error("saved below a file")
	}
}

func TestModelReadOnlyCache(t *testing.T) {
	dir := emptyCache(t)
	dev := openNamed(t, nil)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	if os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600) == nil {
		t.Skip("nothing is read-only for this user")
	}
	if _, err := measured(dev).Save(dev); !errors.Is(err, os.ErrPermission) {
		t.Errorf("saved in a read-only directory: %v", err)
	}
	refused(t, dev, "does not exist")
}

// Devices do not share a file.
func TestModelFileOfEachDevice(t *testing.T) {
	emptyCache(t)
	seen := map[string]string{}
	for _, name := range []string{"a", "b"} {
		for _, uuid := range []string{"", "a", "GPU-1"} {
			path, err := File(openNamed(t, func(i *device.Info) { i.Name, i.UUID = name, uuid }))
			if err != nil {
				t.Fatal(err)
			}
			if other := seen[path]; other != "" {
				t.Errorf("%s and %s share %s", other, name+"/"+uuid, path)
			}
			seen[path] = name + "/" + uuid
		}
	}
}

// Several that save and load at once never see half a file.
func TestModelSaveConcurrently(t *testing.T) {
	emptyCache(t)
	dev := openNamed(t, nil)
	first := measured(dev)
	path, err := first.Save(dev)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		m := measured(dev)
		m.Batches = append(m.Batches, make([]Batch, i*100)...)
		all.Go(func() {
			for range 20 {
				if _, err := m.Save(dev); err != nil {
					t.Error(err)
				}
				if _, err := Load(dev); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("left %v (%v)", files, err)
	}
}

// A model that somebody made up is checked as one from a file is.
func TestCheck(t *testing.T) {
	for _, m := range []*Model{
		{Paths: []Path{{Copiers: -1}}},
		{Paths: []Path{{Copiers: math.MaxInt, Curve: Curve{{1, 1}}}}},
		{Paths: []Path{{Curve: Curve{{0, 1}}}}},
		{Paths: []Path{{Curve: Curve{{1, math.NaN()}}}}},
		{Paths: []Path{{Curve: Curve{{1, math.Inf(1)}}}}},
		{Batches: []Batch{{CallSeconds: math.NaN()}}},
		{Batches: []Batch{{Block: Curve{{1, math.Inf(1)}}}}},
	} {
		if m.Check() == nil {
			t.Errorf("%+v passes", m)
		}
	}
}

// A model that parses misleads nobody: whatever it says, choices keep to the copiers
// that are allowed, and times are times.
func FuzzParse(f *testing.F) {
	good, err := json.Marshal(&Model{Version: Version, Paths: []Path{
		{Path: "plain", Curve: Curve{{16384, 1e-5}, {65536, 2e-5}}},
		{Path: "staged", Copiers: 8, PastCaches: true, ToHost: true, Curve: Curve{{1, 1e-300}, {math.MaxInt64, 1e300}}},
	}, Batches: []Batch{{"kernel", "h2d", 1e-5, Curve{{4096, 1e-7}}}, {"box", "d2h", 1e308, Curve{{1, 1e308}, {2, 1e-300}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	for _, s := range []string{``, `null`, `{}`, `{"version":1}`, `{"version":1,"paths":[{}]}`,
		`{"version":1,"paths":[{"copiers":65536,"curve":[{"bytes":1,"seconds":5e-324}]}]}`,
		`{"version":1,"paths":[{"copiers":1,"curve":[{"bytes":1,"seconds":1e308},{"bytes":2,"seconds":1e-308},{"bytes":3,"seconds":1e308}]}]}`,
		`{"version":1,"batches":[{"path":"nonsense","direction":"h2d"},{"direction":"d2d"},{"direction":"sideways"}]}`,
	} {
		f.Add([]byte(strings.Replace(s, `"version":1`, fmt.Sprintf(`"version":%d`, Version), 1)))
	}
	sizes := []int64{0, 1, 4096, 16 << 10, 1 << 20, 5<<20 + 1, 1 << 30, 1 << 47, math.MaxInt64}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parse(data)
		if err != nil {
			return
		}
		for _, copiers := range []int{1, 12, MaxCopiers} {
			table := m.Table(copiers)
			for _, n := range sizes {
				for _, toHost := range []bool{false, true} {
					if s := table.At(n, toHost); s.Copiers < 0 || s.Copiers > copiers {
						t.Fatalf("%d bytes, %d copiers: %+v", n, copiers, s)
					}
				}
			}
		}
		for _, b := range m.Batches {
			if s := b.Seconds(2, 1<<40); math.IsNaN(s) || s < 0 {
				t.Fatalf("%+v: %v s", b, s)
			}
		}
		for _, paths := range [][]Path{m.Paths, m.Pinned} {
			for _, p := range paths {
				if latency, rate := p.Curve.Fit(); math.IsNaN(rate) || rate < 0 || latency < 0 {
					t.Fatalf("%v: %v, %v bytes/s", p.Curve, latency, rate)
				}
			}
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatal(fmt.Errorf("it cannot be saved: %w", err))
		}
	})
}
