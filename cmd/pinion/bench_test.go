package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The page is written, and standard output says where beside the short table.
func TestBenchReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "link.html")
	args := []string{"bench", "--report", file, "--device", "host:16MiB", "--size", "64KiB", "--repeats", "1"}
	r := pinion(t, args...)
	for _, want := range []string{"PATH", "pageable", "open the device (once)", "Report: " + file} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if strings.Contains(r.stdout, "CHOSEN") {
		t.Errorf("the curves are printed too:\n%s", r.stdout)
	}
	first, err := os.ReadFile(file)
	ok(t, err)
	for _, want := range []string{"<!doctype html>", "</html>", "<svg", "64 KiB"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("%q is missing in the page", want)
		}
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v: others could not read the report", info.Mode(), err)
	}

	// Again, over the first one, as JSON.
	doc := document(t, []string{"bulk", "curves", "choice", "report_file"}, append(args, "--json")...)
	if doc["report_file"] != file {
		t.Errorf("the report is %v", doc["report_file"])
	}
	onlyFile(t, dir, "link.html")
}

// onlyFile wants nothing but that file in a folder; "" is nothing at all.
func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	ok(t, err)
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != name {
		t.Errorf("the folder has %q, want %q", got, name)
	}
}

// A run that fails leaves the old page as it was and nothing beside it.
func TestBenchReportFails(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, dir, "link.html", []byte("old"))
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, r := range []result{
		pinion(t, "bench", "--report", file, "--device", "host:1MiB", "--size", "16MiB"),
		pinion(t, "bench", "--report", file, "--device", "cuda:0"),
		pinionWith(t, cancelled, "bench", "--report", file, "--device", "host", "--size", "64KiB"),
	} {
		if r.code != exitFailed || r.stdout != "" || r.stderr == "" {
			t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
			t.Errorf("the old report is %q, %v", text, err)
		}
		onlyFile(t, dir, "link.html")
	}
}

func TestBenchReportUsage(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "link.html")
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"bench --json", 2, []string{"--json", "--report"}},
		{"bench --size 1GiB", 2, []string{"--size", "--report"}},
		{"bench --device host", 2, []string{"--device", "--report"}},
		{"bench --repeats 3", 2, []string{"--repeats", "--report"}},
		{"bench --report=", 2, []string{"--report"}},
		{"bench --report " + file + " --size 1", 2, []string{"--size", "16 KiB"}},
		{"bench --report " + file + " --repeats 0", 2, []string{"--repeats", "0"}},
		{"bench --report " + file + " --device host:lots", 2, []string{"--device", "lots"}},
		{"bench --report " + filepath.Join(dir, "no", "link.html") + " --device host", 1, []string{"no"}},
		{"bench --report " + dir + " --device host", 1, []string{"it is a folder, not a file"}},
	} {
		checkMessage(t, c.args, pinion(t, strings.Fields(c.args)...), c.code, c.say)
		onlyFile(t, dir, "")
	}
}

// An interrupt ends a measurement, whatever it is doing.
func TestBenchLinkInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	for _, after := range []time.Duration{50, 200, 800} { // while memory is prepared, paths are checked, and copies timed
		r := process(t, func(p *os.Process) {
			time.Sleep(after * time.Millisecond)
			ok(t, p.Signal(os.Interrupt))
		}, "bench", "link", "--device", "host", "--size", "256MiB", "--repeats", "1000000000", "--json")
		if r.code != exitFailed && r.code != -1 { // -1: killed before it listened
			t.Errorf("exit code %d", r.code)
		}
		if r.code == exitFailed && r.stderr != "pinion: interrupted\n" || r.stdout != "" {
			t.Errorf("%q, and on standard output %q", r.stderr, r.stdout)
		}
	}
}

// stuck is the host backend with a link, and with a driver that, once it has begun
// to pin memory, does nothing else for an hour.
type stuck struct {
	device.Wrapper
	device.Pinner
}

func (d stuck) Pin(b []byte, _ device.PinFlags) error {
	os.WriteFile(os.Getenv("PINION_TEST_PINNING"), nil, 0o600)
	time.Sleep(time.Hour)
	return nil
}

func (d stuck) Info() device.Info {
	info := d.Device.Info()
	info.Integrated = false
	return info
}

// registerStuck adds the backend to a process that a test started.
func registerStuck() {
	if os.Getenv("PINION_TEST_PINNING") == "" {
		return
	}
	device.Register(device.Backend{Name: "stuck", Open: func(string) (device.Device, error) {
		dev, err := host.Open(64 << 20)
		if err != nil {
			return nil, err
		}
		return stuck{device.Wrapper{Device: dev}, dev}, nil
	}, List: func() ([]string, error) { return []string{"stuck"}, nil }})
}

// So it does in the middle of a call of the driver, which takes as long as it
// likes.
func TestBenchLinkInterruptWhilePinning(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	for _, args := range []string{"--size 1MiB", "--size 1MiB --curves", "--calibrate"} {
		cache, pinning := t.TempDir(), filepath.Join(t.TempDir(), "pinning")
		t.Setenv("PINION_TEST_PINNING", pinning)
		t.Setenv("XDG_CACHE_HOME", cache)
		r := process(t, func(p *os.Process) {
			testkit.Eventually(t, "pinning begins", func() bool {
				_, err := os.Stat(pinning)
				return err == nil
			})
			ok(t, p.Signal(os.Interrupt))
		}, append(strings.Fields("bench link --device stuck --json"), strings.Fields(args)...)...)
		if r.code != exitFailed || r.stderr != "pinion: interrupted\n" || r.stdout != "" {
			t.Errorf("%s: exit code %d, %q, and on standard output %q", args, r.code, r.stderr, r.stdout)
		}
		onlyFile(t, cache, "")
	}
}

// Where a size was not asked for, the result says why it is smaller.
func TestBenchLinkSmallerSize(t *testing.T) {
	doc := document(t, []string{"size_bytes", "size_reason", "pin_bytes"}, "bench", "link", "--device", "host:3MiB", "--repeats", "1", "--json")
	if doc["size_bytes"] != 2097152. || !strings.Contains(doc["size_reason"].(string), "1 GiB") {
		t.Errorf("%v bytes, because %v", doc["size_bytes"], doc["size_reason"])
	}
	if r := pinion(t, "bench", "link", "--device", "host:3MiB", "--repeats", "1"); !strings.Contains(r.stdout, "\nSmaller than the default: ") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

func TestBenchCurvesJSON(t *testing.T) {
	doc := document(t, []string{"bulk", "curves", "choice"}, "bench", "link", "--curves", "--device", "host:16MiB", "--size", "64KiB", "--repeats", "2", "--json")
	seen := map[string]int{}
	for _, c := range doc["curves"].([]any) {
		row := c.(map[string]any)
		seen[row["path"].(string)+" "+row["direction"].(string)]++
		for _, key := range []string{"seconds", "gb_per_s"} {
			least, median, most := row["min_"+key].(float64), row[key].(float64), row["max_"+key].(float64)
			if least <= 0 || median < least || most < median {
				t.Errorf("%s: %v", key, row)
			}
		}
		if rate := row["bytes"].(float64) / row["seconds"].(float64) / 1e9; rate > 1.001*row["gb_per_s"].(float64) || rate < 0.999*row["gb_per_s"].(float64) {
			t.Errorf("%v: the rate is %g", row, rate)
		}
	}
	for _, path := range []string{"pageable", "staged", "chosen"} {
		for _, direction := range []string{"h2d", "d2h"} {
			if seen[path+" "+direction] != 4 {
				t.Errorf("%d rows for %s %s, want one for each of 4 sizes", seen[path+" "+direction], path, direction)
			}
		}
	}
	for _, c := range doc["choice"].([]any) {
		row := c.(map[string]any)
		if best := row["best_path"]; best != "pageable" && best != "staged" || row["choice_ratio"].(float64) <= 0 || row["best_seconds"].(float64) <= 0 || row["chosen_seconds"].(float64) <= 0 {
			t.Errorf("%v", row)
		}
	}
	if without := document(t, nil, "bench", "link", "--device", "host:16MiB", "--size", "64KiB", "--repeats", "1", "--json"); without["curves"] != nil || without["choice"] != nil {
		t.Error("curves that nobody asked for")
	}
}
