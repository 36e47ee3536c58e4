package main

import (
	"fmt"
	"math"
	"slices"
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

// stepTable is a model's steps in a run: what each took, and how much memory, by who ran it.
// It says whether a peer is among them.
func (r *run) stepTable(model string) (t *table, beside bool) {
	t = newTable("", ">a step", ">device memory")
	for _, f := range r.compared[steps] {
		for _, row := range f.Rows {
			by := plain(f.program(row))
			if row.Name != model || t.has(by) { // another file of the run has it, too
				continue
			}
			memory := ""
			for _, m := range f.Rows {
				if m.Name == model+", memory" && m.By == row.By {
					memory = m.text(m.Value)
				}
			}
			t.add(by, row.text(row.Value), memory)
			beside = beside || f.Commit == ""
		}
	}
	return t, beside
}

// newestSteps is the newest run on a device other than the host that has steps of a model
// beside a peer's, or else the newest that has steps of it; nil: there is none.
func newestSteps(runs []*run, model string) (newest *run, t *table) {
	for _, r := range runs {
		onHost := slices.ContainsFunc(r.compared[steps], func(f *comparedFile) bool { return isHost(f.Device, f.DeviceName) })
		found, beside := r.stepTable(model)
		if onHost || len(found.rows) == 0 {
			continue
		}
		if beside || newest == nil {
			newest, t = r, found
		}
		if beside {
			break
		}
	}
	return newest, t
}

// sameBits reports whether steps within budgets were compared, and all had the results of
// those without.
func (r *run) sameBits() (same bool) {
	for _, f := range r.compared[steps] {
		for _, s := range f.Steps {
			if s.Equal != nil {
				if !*s.Equal {
					return false
				}
				same = true
			}
		}
	}
	return same
}

// compareSteps is the README's table of training steps.
func compareSteps(runs []*run) string {
	r, t := newestSteps(runs, largeGPT)
	if r == nil {
		return ""
	}
	var w strings.Builder
	same := ""
	if r.sameBits() {
		same = " Pinion's results have the same bits within each budget."
	}
	fmt.Fprintf(&w, "\nForward and backward of a GPT with 24 layers of 2,048, 16 x 1,024 tokens, bf16 (run %s).%s\n", plain(r.name), same)
	t.write(&w)
	return w.String()
}

// stepGuide is what docs/step.md shows of the newest runs: steps of all models, how long
// a token takes, and how they were planned, if the run has a picture of it.
func stepGuide(runs []*run) string {
	var w strings.Builder
	for _, model := range []string{largeGPT, llama, resNet50} {
		r, t := newestSteps(runs, model)
		if r == nil {
			continue
		}
		fmt.Fprintf(&w, "\n%s (run %s):\n", plain(model), plain(r.name))
		t.write(&w)
		for _, f := range r.compared[steps] {
			if f.Model == model && slices.Contains(r.pictures, f.file) {
				fmt.Fprintf(&w, "\n![Bytes in use over the step, by what becomes of them, beside a step without a budget.](../bench/results/%s/%s.svg)\n", r.name, f.file)
			}
		}
	}
	t := newTable("GPT-2, one token, bf16", ">p50", ">p99", ">p99.9", "run")
	for _, r := range runs {
		for _, f := range r.compared[steps] {
			if isHost(f.Device, f.DeviceName) {
				continue
			}
			if cells := f.latency(); cells != nil {
				t.add(append(cells, plain(r.name))...)
			}
		}
		if len(t.rows) > 0 {
			break
		}
	}
	t.write(&w)
	if w.Len() == 0 {
		return nothing
	}
	return w.String() + "\n"
}

// latency is a row of how long one token takes; nil: the file has none.
func (f *comparedFile) latency() (cells []string) {
	for _, share := range []string{", p50", ", p99", ", p99.9"} {
		cell := ""
		for _, row := range f.Rows {
			if row.Name == oneToken+share {
				cell = row.text(row.Value)
				if cells == nil {
					cells = []string{plain(f.program(row))}
				}
			}
		}
		if cells != nil {
			cells = append(cells, cell)
		}
	}
	return cells
}

// The models of the targets. PyTorch comes close to the first one's 13.7 GiB, and not below:
// what takes a tenth more counts.
const (
	largeGPT, resNet50, oneToken, llama = "GPT 24 x 2048, 16 x 1024, bf16", "ResNet-50, 64 x 224 px, bf16", "GPT-2, one token, bf16", "Llama 12 x 768, 16 x 1024, bf16"

	unplanned = "Pinion, no budget"
	closeTo   = 1.1 * 13.7 // GiB
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
		{"the same within 13.7 GiB, of PyTorch's fastest within " + gibs(closeTo), 1, true, ratio, func(r *run) (float64, bool) {
			memory := r.figures(largeGPT+", memory", false)
			return over(ours(r, largeGPT, within("13.7 GiB")), theirs(r, largeGPT, func(by string) bool { return memory[by] > 0 && memory[by] <= closeTo }))
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
