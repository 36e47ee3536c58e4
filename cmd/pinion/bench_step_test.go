package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Steps of small models run within budgets, with the same results.
func TestBenchStep(t *testing.T) {
	small := []string{"bench", "step", "--device", "host", "--layers", "2", "--width", "32", "--heads", "2", "--batch", "2", "--length", "16", "--vocabulary", "50", "--steps", "2"}
	picture := filepath.Join(t.TempDir(), "plan.svg")
	args := append(small, "--budget", "440KiB,1KiB", "--plan", picture)
	r := pinion(t, args...)
	for _, want := range []string{"GPT 2 x 32, 2 x 16, bf16", "BUDGET", "none", "440 KiB", "the same bits", "Not run:\n  1 KiB: step: graph"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if svg := testkit.ReadFile(t, picture); !strings.HasPrefix(svg, "<svg") || !strings.Contains(svg, "without a budget") {
		t.Errorf("the picture is %.200s", svg)
	}
	doc := document(t, []string{"device", "what", "model", "weights", "loss", "link_gb_per_s", "rows", "steps", "plan"}, append(args, "--json")...)
	steps := doc["steps"].([]any)
	if len(steps) != 3 || len(doc["rows"].([]any)) != 4 {
		t.Fatalf("%v", doc)
	}
	for i, key := range []string{"step_seconds", "predicted_seconds", "predicted_bytes", "peak_bytes", "digest"} {
		for _, s := range steps[:2] {
			if _, there := s.(map[string]any)[key]; !there {
				t.Errorf("%d: no %q in %v", i, key, s)
			}
		}
	}
	planned := steps[1].(map[string]any)
	if planned["results_equal"] != true || planned["peak_bytes"].(float64) > 440<<10 || steps[2].(map[string]any)["error"] == nil {
		t.Errorf("%v", steps[1:])
	}
	// Plans are made of the same times again.
	args = append(small[:len(small):len(small)], "--budget", "440KiB", "--no-link", "--times", filepath.Join(t.TempDir(), "times.json"), "--json")
	var predicted []any
	for range 2 {
		doc := document(t, nil, args...)
		for _, s := range doc["steps"].([]any) {
			predicted = append(predicted, s.(map[string]any)["predicted_seconds"])
		}
		if text := fmt.Sprint(doc["notes"]); strings.Contains(text, "no times") {
			t.Error(text)
		}
	}
	if len(predicted) != 4 || predicted[1] == nil || predicted[1] != predicted[3] {
		t.Errorf("predicted %v", predicted)
	}
	// Those of another model are too few, and it says so.
	if text := fmt.Sprint(document(t, nil, append(args, "--attention", "plain")...)["notes"]); !strings.Contains(text, "times.json has no times of ") {
		t.Errorf("times of another model: %s", text)
	}
	for model, args := range map[string][]string{
		"Llama":     append(small[:len(small):len(small)], "--model", "llama", "--attention", "plain", "--no-link", "--tasks", "--json"),
		"ResNet-50": {"bench", "step", "--device", "host", "--model", "resnet50", "--width", "2", "--batch", "2", "--image", "32", "--steps", "2", "--optimizer", "sgd", "--dtype", "f32", "--json"},
	} {
		doc := document(t, nil, args...)
		if !strings.HasPrefix(doc["model"].(string), model) || doc["loss"] == nil {
			t.Errorf("%v", doc)
		}
		if tasks, there := doc["tasks"].([]any); there != (model == "Llama") || there && len(tasks) != 30 {
			t.Errorf("%v", tasks)
		}
	}
	if r := pinion(t, append(small, "--tasks")...); !strings.Contains(r.stdout, "OF THE FIRST STEP") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

func TestBenchStepLatency(t *testing.T) {
	args := []string{"bench", "step", "--device", "host", "--model", "gpt2", "--layers", "1", "--width", "8", "--heads", "2", "--length", "4", "--vocabulary", "9", "--steps", "1", "--latency"}
	if r := pinion(t, args...); r.code != exitDone || !strings.Contains(r.stdout, "P99.9") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	doc := document(t, []string{"device", "what", "model", "weights", "rows", "latency"}, append(args, "--json")...)
	l := doc["latency"].(map[string]any)
	if l["runs"] != 100.0 || !(l["p50_seconds"].(float64) <= l["p99_seconds"].(float64)) || !(l["p99_seconds"].(float64) <= l["p999_seconds"].(float64)) {
		t.Errorf("%v", l)
	}
}

func TestBenchStepUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		say  string
	}{
		{"--model bert", exitUsage, "gpt, llama, resnet50 or gpt2"},
		{"--heads 3", exitUsage, "a width of 2048 is not 3 heads"},
		{"--budget 0", exitUsage, "--budget"},
		{"--device host:2MiB --layers 1 --width 2 --heads 1 --batch 1 --length 2 --vocabulary 2", exitFailed, "the link cannot be measured: host: out of device memory"},
		{"--latency", exitUsage, "--latency needs --model gpt2"},
		{"--layers 0 --width 2 --batch 1 --length 2 --vocabulary 2", exitUsage, "at least 1"},
		{"--model resnet50 --width 1 --batch 1 --image 32 --heads 3", exitUsage, "--heads is not for --model resnet50"},
		{"--model resnet50 --width 1 --batch 1 --image 32 --attention plain", exitUsage, "--attention is not for --model resnet50"},
		{"--model gpt2 --layers 1 --width 2 --heads 1 --length 2 --vocabulary 2 --batch 3", exitUsage, "--batch is not for --model gpt2"},
		{"--layers 1 --width 2 --heads 1 --batch 1 --length 2 --vocabulary 2 --image 32", exitUsage, "--image is not for --model gpt"},
		{"--latency --budget 1GiB", exitUsage, "--latency takes neither"},
		{"--plan=", exitUsage, "--plan needs the name of a file"},
		{"--steps 0", exitUsage, "at least 1"},
		{"more", exitUsage, "more"},
	} {
		r := pinion(t, append([]string{"bench", "step"}, strings.Fields(c.args)...)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.say) || r.stdout != "" {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", c.args, r.code, c.code, c.say, r.stdout, r.stderr)
		}
	}
}

// Ranks plan with times of the model that they run together.
func TestBenchStepMPI(t *testing.T) {
	dir := t.TempDir()
	times, picture := filepath.Join(dir, "times.json"), filepath.Join(dir, "plan.svg")
	for range 2 {
		r := mpirun(t, 2, "bench", "step", "--device", "host", "--layers", "1", "--width", "32", "--heads", "2", "--batch", "2", "--length", "16", "--vocabulary", "50",
			"--steps", "2", "--no-link", "--times", times, "--plan", picture, "--json")
		if r.code != exitDone {
			t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		doc := parse(t, r.stdout, []string{"commit"})
		if text := fmt.Sprint(doc["notes"]); strings.Contains(text, "no times") || doc["ranks"].(map[string]any)["ranks"] != 2. {
			t.Errorf("%s\n%v", text, doc["ranks"])
		}
		rows, before := doc["ranks"].(map[string]any)["simulated"].([]any), 0.0
		for _, row := range rows {
			seconds := row.(map[string]any)["step_seconds"].(float64)
			if seconds < before || seconds == 0 {
				t.Errorf("a step takes %v s, and %v s on half the ranks", seconds, before)
			}
			before = seconds
		}
		if len(rows) != 11 {
			t.Errorf("%d numbers of ranks were simulated", len(rows))
		}
	}
	testkit.ReadFile(t, picture)
}
