package main

import (
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	r := pinion(t, "version")
	if r.code != exitDone || !strings.HasPrefix(r.stdout, "pinion ") || !strings.Contains(r.stdout, runtime.GOOS+"/"+runtime.GOARCH+" "+runtime.Version()) {
		t.Errorf("%+v", r)
	}
	doc := document(t, []string{"measured_at", "version", "commit", "platform", "cpus"}, "version", "--json")
	if doc["version"] == "" || doc["commit"] == "" {
		t.Errorf("%v", doc)
	}
	if r := pinion(t, "--version"); r.code != exitDone || r.stdout != "pinion "+doc["version"].(string)+"\n" {
		t.Errorf("%+v", r)
	}
}

// Completion is there for each shell, and completes commands, flags and values.
func TestCompletion(t *testing.T) {
	for _, shell := range shells {
		if r := pinion(t, "completion", shell); r.code != exitDone || !strings.Contains(r.stdout, "pinion") {
			t.Errorf("%s: %+v", shell, r)
		}
	}
	for _, args := range []string{"completion", "completion tcsh", "completion bash zsh"} {
		if r := pinion(t, strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.stderr, "powershell") {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for args, want := range map[string]string{
		"fe":                  "feed\t",
		"feed --work":         "--workers\t",
		"feed --sampler ":     "balanced\n",
		"tune --dtype ":       "bf16\n",
		"feed --decode ":      "gpu\n",
		"feed --on-error ":    "replace\n",
		"replay --allocator ": "driver\n",
		"bench link --device": "--device\t",
		"feed --device ":      "host",
		"completion ":         "powershell\n",
		"feed --size ":        ":4\n", // no files
		"feed --cro":          "--crop\tZxYxX that",
	} {
		list := append([]string{"__complete"}, strings.Split(args, " ")...)
		if r := pinion(t, list...); r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("%q: %q is missing: %+v", args, want, r)
		}
	}
}
