package main

import (
	"strings"
	"testing"
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
