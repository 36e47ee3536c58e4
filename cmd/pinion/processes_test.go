package main

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// startable makes the processes that a command starts be the command too.
func startable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes are measured where there are Unix sockets")
	}
	t.Setenv("PINION_TEST_MAIN", "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
}

func TestBenchProcesses(t *testing.T) {
	startable(t)
	args := []string{"bench", "processes", "--device", "host:16MiB", "--size", "64KiB", "--repeats", "2"}
	doc := document(t, []string{"measured_at", "commit", "platform", "cpus", "device", "device_name", "shares_host_memory", "size_bytes",
		"processes", "repeats", "initialisation_seconds", "times", "copies", "not_available"}, append(args, "--procs", "3", "--json")...)
	if doc["size_bytes"] != 65536. || doc["processes"] != 3. || doc["repeats"] != 2. || doc["device"] != "host:16MiB" ||
		doc["shares_host_memory"] != true || doc["puzzles"] != nil {
		t.Errorf("%v", doc)
	}
	seen := map[string]bool{}
	for _, c := range doc["copies"].([]any) {
		row := c.(map[string]any)
		seen[row["memory"].(string)+" "+row["direction"].(string)] = true
		if n := len(row["each_process"].([]any)); n != 3 {
			t.Errorf("%d processes in %v", n, row)
		}
		for _, condition := range []string{"alone", "together"} {
			rates := row[condition].(map[string]any)
			least, median, most := rates["min_gb_per_s"].(float64), rates["gb_per_s"].(float64), rates["max_gb_per_s"].(float64)
			if least <= 0 || median < least || most < median {
				t.Errorf("%s: %v", condition, row)
			}
		}
		for _, key := range []string{"first_seconds", "min_first_seconds", "max_first_seconds", "together_total_gb_per_s"} {
			if row[key].(float64) <= 0 {
				t.Errorf("%s: %v", key, row)
			}
		}
	}
	for _, want := range []string{"pageable h2d", "pageable d2h"} {
		if !seen[want] {
			t.Errorf("%s is not measured", want)
		}
	}
	if r := pinion(t, append(args, "--procs", "1")...); r.code != exitDone || !strings.Contains(r.stdout, "HOST MEMORY") ||
		!strings.Contains(r.stdout, "there is no link") || !strings.Contains(r.stdout, "open the device, in a new process") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestBenchProcessesErrors(t *testing.T) {
	startable(t)
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"--procs 0", 2, []string{"--procs", "0", "16"}},
		{"--procs 17", 2, []string{"--procs", "17"}},
		{"--procs -1", 2, []string{"--procs", "-1"}},
		{"--procs many", 2, []string{"--procs", "many"}},
		{"--repeats 0", 2, []string{"--repeats", "0"}},
		{"--size 1", 2, []string{"--size", "16 KiB"}},
		{"--size big", 2, []string{"--size", "big"}},
		{"--device host:lots", 2, []string{"--device", "lots"}},
		{"--device cuda:0", 1, []string{"cuda", "unavailable"}},
		{"there", 2, []string{"there"}},
		{"--device host:1MiB --size 2MiB", 1, []string{"process 1", "--size", "out of device memory"}},
		{"--device host --size 8EB", 1, []string{"--size", "available"}},
	} {
		for _, args := range []string{c.args, c.args + " --json"} {
			checkMessage(t, args, pinion(t, strings.Fields("bench processes "+args)...), c.code, c.say)
		}
	}
	r := process(t, nil, "bench", "processes", "child")
	checkMessage(t, "started by hand", r, 1, []string{"only pinion itself"})

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	r = pinionWith(t, cancelled, "bench", "processes", "--device", "host", "--size", "64KiB")
	if r.code != exitFailed || r.stdout != "" || r.stderr != "pinion: interrupted\n" {
		t.Errorf("cancelled: exit code %d, %q, %q", r.code, r.stdout, r.stderr)
	}
}

// An interrupt ends a run, in the middle of copies too.
func TestBenchProcessesInterrupt(t *testing.T) {
	startable(t)
	r := process(t, func(p *os.Process) {
		time.Sleep(300 * time.Millisecond) // most likely in the middle; right anywhere behind the start
		ok(t, p.Signal(os.Interrupt))
	}, "bench", "processes", "--device", "host", "--size", "64KiB", "--repeats", "1000000000", "--json")
	if r.code != exitFailed && r.code != -1 { // -1: killed before it listened
		t.Errorf("exit code %d", r.code)
	}
	if r.code == exitFailed && r.stderr != "pinion: interrupted\n" || r.stdout != "" {
		t.Errorf("%q, and on standard output %q", r.stderr, r.stdout)
	}
}
