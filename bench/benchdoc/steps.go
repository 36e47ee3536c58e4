package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// budgetStep is a step within a budget, of a document of pinion bench step.
type budgetStep struct {
	Budget           int64   `json:"budget_bytes"` // 0: none
	Error            string  `json:"error"`
	Seconds          float64 `json:"step_seconds"`
	PredictedSeconds float64 `json:"predicted_seconds"`
	PredictedBytes   int64   `json:"predicted_bytes"`
	Bytes            int64   `json:"peak_bytes"`
	Again            int     `json:"again_tasks"`
	Sent             int64   `json:"sent_bytes"`
	Compile          float64 `json:"compile_seconds"`
	Equal            *bool   `json:"results_equal"`
}

// budget names what the step had.
func (s *budgetStep) budget() string {
	if s.Budget == 0 {
		return "none"
	}
	return units.Bytes(s.Budget)
}

// writeSteps writes steps of models beside their peers', and how they were planned.
func writeSteps(w *strings.Builder, files []*comparedFile) {
	writeCompared(w, steps, files)
	for _, f := range files {
		if len(f.Steps) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n### %s: plans of %s\n", f.file, plain(f.Model))
		t := newTable("budget", ">planned", ">measured", ">peak planned", ">allocated", ">computed again", ">sent", ">compiled in", "results")
		for _, s := range f.Steps {
			results := ""
			switch {
			case s.Error != "":
				t.add(s.budget(), "", "", "", "", "", "", "", plain(s.Error))
				continue
			case s.Equal != nil && *s.Equal:
				results = "the same bits"
			case s.Equal != nil:
				results = "other bits"
			}
			t.add(s.budget(), duration(s.PredictedSeconds), duration(s.Seconds), units.Bytes(s.PredictedBytes), units.Bytes(s.Bytes),
				units.Count(s.Again, "task"), units.Bytes(s.Sent), duration(s.Compile), results)
		}
		t.write(w)
	}
}

// The models of the targets, and the memory that PyTorch's compiler brings the first to.
const (
	largeGPT, resNet50, oneToken, llama = "GPT 24 x 2048, 16 x 1024, bf16", "ResNet-50, 64 x 224 px, bf16", "GPT-2, one token, bf16", "Llama 12 x 768, 16 x 1024, bf16"

	unplanned       = "Pinion, no budget"
	compilersMemory = 13.7 // GiB
)

// figures are the rows of steps of one name: Pinion's or the peers', by who did it.
func (r *run) figures(name string, ours bool) map[string]float64 {
	list := map[string]float64{}
	for _, f := range r.compared[steps] {
		for _, row := range f.Rows {
			if row.Name == name && (f.Commit != "") == ours {
				list[row.By] = row.Value
			}
		}
	}
	return list
}

// least is the least of figures, 0 of none.
func least(list map[string]float64, which func(by string) bool) (v float64) {
	for by, x := range list {
		if which(by) && (v == 0 || x < v) {
			v = x
		}
	}
	return v
}

// over is a target's figure: a over b, if both were measured.
func over(a, b float64) (float64, bool) { return a / b, a > 0 && b > 0 }

// stepTargets are those of steps.
func stepTargets() []target {
	all := func(string) bool { return true }
	ours := func(r *run, name, by string) float64 { return r.figures(name, true)[by] }
	theirs := func(r *run, name string, which func(by string) bool) float64 {
		return least(r.figures(name, false), which)
	}
	eager := func(by string) bool { return strings.HasPrefix(by, "eager") }
	within := func(by string) string { return "Pinion, " + by }
	gibs := func(v float64) string { return number(v) + " GiB" }
	each := func(figure func(s *budgetStep) (float64, bool)) func(*run) (float64, bool) {
		return func(r *run) (most float64, ok bool) {
			for _, f := range r.compared[steps] {
				for i := range f.Steps {
					if v, there := figure(&f.Steps[i]); there && f.Steps[i].Error == "" {
						most, ok = max(most, v), true
					}
				}
			}
			return most, ok
		}
	}
	return []target{
		{"a GPT of 24 x 2048: step, of PyTorch's", 1, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, largeGPT, unplanned), theirs(r, largeGPT, eager))
		}},
		{"the same, of torch.compile's", 1.15, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, largeGPT, unplanned), theirs(r, largeGPT, func(by string) bool { return by == "torch.compile" || by == "torch.compile of each block" }))
		}},
		{"the same within 13.7 GiB, of the step without a budget", 1.12, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, largeGPT, within("13.7 GiB")), ours(r, largeGPT, unplanned))
		}},
		{"the same within 13.7 GiB, of PyTorch's fastest in that memory", 1, true, ratio, func(r *run) (float64, bool) {
			memory := r.figures(largeGPT+", memory", false)
			return over(ours(r, largeGPT, within("13.7 GiB")), theirs(r, largeGPT, func(by string) bool { return memory[by] > 0 && memory[by] <= 1.05*compilersMemory }))
		}},
		{"the least memory that it runs in", 12, true, gibs, func(r *run) (float64, bool) {
			v := least(r.figures(largeGPT+", memory", true), all)
			return v, v > 0
		}},
		{"ResNet-50: step, of PyTorch's", 1.15, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, resNet50, unplanned), theirs(r, resNet50, eager))
		}},
		{"ResNet-50 in half the memory, of the step without a budget", 1.15, true, ratio, func(r *run) (float64, bool) {
			whole, memory := ours(r, resNet50, unplanned), r.figures(resNet50+", memory", true)
			return over(least(r.figures(resNet50, true), func(by string) bool { return memory[by] > 0 && memory[by] <= memory[unplanned]/2 }), whole)
		}},
		{"steps within budgets with other results", 0, true, failures, each(func(s *budgetStep) (float64, bool) {
			if s.Equal == nil || *s.Equal {
				return 0, s.Equal != nil
			}
			return 1, true
		})},
		{"memory of steps, off what was predicted", 0.02, true, units.Percent, each(func(s *budgetStep) (float64, bool) {
			return math.Abs(float64(s.Bytes)/float64(s.PredictedBytes) - 1), s.PredictedBytes > 0
		})},
		{"times of steps, off what was predicted", 0.1, true, units.Percent, each(func(s *budgetStep) (float64, bool) {
			return math.Abs(s.Seconds/s.PredictedSeconds - 1), s.PredictedSeconds > 0
		})},
		{"a Llama of 100M weights with Adam", 8, true, gibs, func(r *run) (float64, bool) {
			v := least(r.figures(llama+", memory", true), all)
			return v, v > 0
		}},
		{"GPT-2, a token: 99 % of the median", 1.2, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, oneToken+", p99", pinion), ours(r, oneToken+", p50", pinion))
		}},
		{"GPT-2, a token: median, of PyTorch's CUDA graph", 1, true, ratio, func(r *run) (float64, bool) {
			return over(ours(r, oneToken+", p50", pinion), theirs(r, oneToken+", p50", all))
		}},
	}
}
