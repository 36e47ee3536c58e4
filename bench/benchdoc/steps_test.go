package main

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Steps are held against their targets, and shown beside those of peers.
func TestSteps(t *testing.T) {
	r := &run{name: "a", turns: map[string][]*turnFile{}, compared: map[string][]*comparedFile{}}
	for name, text := range map[string]string{
		"step-gpt": `{"commit": "abc", "what": "step", "device_name": "a GPU", "repeats": 5, "model": "GPT 24 x 2048, 16 x 1024, bf16", "rows": [
			{"name": "GPT 24 x 2048, 16 x 1024, bf16", "by": "Pinion, no budget", "unit": "ms", "value": 240, "min": 239, "max": 241},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16, memory", "by": "Pinion, no budget", "unit": "GiB", "value": 36},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16", "by": "Pinion, 13.7 GiB", "unit": "ms", "value": 264, "min": 263, "max": 265},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16, memory", "by": "Pinion, 13.7 GiB", "unit": "GiB", "value": 13.6}],
			"steps": [
			{"budget_bytes": 0, "step_seconds": 0.24, "predicted_seconds": 0.2, "predicted_bytes": 100, "peak_bytes": 100},
			{"budget_bytes": 14710262988, "step_seconds": 0.264, "predicted_seconds": 0.26, "predicted_bytes": 100, "peak_bytes": 101, "again_tasks": 7, "results_equal": true},
			{"budget_bytes": 1, "error": "too little"}]}`,
		"step-gpt2": `{"commit": "abc", "what": "step", "rows": [
			{"name": "GPT-2, one token, bf16, p50", "by": "Pinion", "unit": "ms", "value": 0.4},
			{"name": "GPT-2, one token, bf16, p99", "by": "Pinion", "unit": "ms", "value": 0.5}]}`,
		"torch-step": `{"peer": "PyTorch 2", "what": "step", "rows": [
			{"name": "GPT 24 x 2048, 16 x 1024, bf16", "by": "eager", "unit": "ms", "value": 300},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16, memory", "by": "eager", "unit": "GiB", "value": 36},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16", "by": "checkpoint", "unit": "ms", "value": 330},
			{"name": "GPT 24 x 2048, 16 x 1024, bf16, memory", "by": "checkpoint", "unit": "GiB", "value": 14.9}]}`,
	} {
		testkit.OK(t, r.add(name, []byte(text)))
	}
	var w strings.Builder
	r.printTargets(&w)
	writeSteps(&w, r.compared[steps])
	said := strings.Join(strings.Fields(w.String()), " ")
	for _, want := range []string{
		"step, of PyTorch's at most 1.000 0.800 yes",
		"of torch.compile's at most 1.150 not measured",
		"of the step without a budget at most 1.120 1.100 yes",
		"of PyTorch's fastest within 15.1 GiB at most 1.000 0.800 yes",
		"the least memory that it runs in at most 12.0 GiB 13.6 GiB no",
		"with other results 0 failures 0 failures yes",
		"memory of steps, off what was predicted at most 2.0 % 1.0 % yes",
		"times of steps, off what was predicted at most 10.0 % 20.0 % no",
		"99 % of the median at most 1.200 1.250 no",
		"| 13.7 GiB | 260 ms | 264 ms | 100 B | 101 B | 7 tasks |",
		"| the same bits |",
		"too little",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, &w)
		}
	}
	r.pictures = []string{"step-gpt"}
	runs := []*run{{name: "newer", compared: map[string][]*comparedFile{}}, r}
	for want, got := range map[string]string{
		"bf16 (run a). Pinion's results have the same bits within each budget.": compareSteps(runs),
		"| PyTorch 2: checkpoint | 330 ms | 14.9 GiB |":                         compareSteps(runs),
		"| Pinion, 13.7 GiB | 264 ms | 13.6 GiB |":                              stepGuide(runs),
		"](../bench/results/a/step-gpt.svg)":                                    stepGuide(runs),
		"| Pinion | 400 µs | 500 µs |  | a |":                                   stepGuide(runs),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for _, f := range r.compared[steps] {
		if len(f.Steps) > 0 {
			*f.Steps[1].Equal = false
		}
	}
	for _, v := range r.verdicts() {
		if v.name == "steps within budgets with other results" && v.reached != "no" {
			t.Errorf("%+v", v)
		}
	}
	if got := compareSteps(runs); strings.Contains(got, "same bits") {
		t.Error(got)
	}
}
