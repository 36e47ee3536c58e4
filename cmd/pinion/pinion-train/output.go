package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/curve"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/models"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/session"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// output is the JSON document of pinion train.
type output struct {
	provenance.Record
	Data string `json:"data"`
	session.Config
	Parameters int    `json:"parameters"` // numbers that the model learns
	AMP        string `json:"amp"`
	Share      bool   `json:"share,omitempty"`   // of Adam's moments, by ranks
	Average    string `json:"average,omitempty"` // the type in which ranks average gradients, if it is not their own

	Steps       int       `json:"steps"`      // of this run
	FirstStep   int       `json:"first_step"` // counted from 1, those before a checkpoint included
	Loss        float64   `json:"loss"`       // of the last step
	Losses      []float64 `json:"losses"`
	LossScale   float64   `json:"loss_scale,omitempty"` // of fp16, after the last step
	Skipped     []int     `json:"skipped_steps"`        // those that changed nothing: gradients of fp16 were not finite
	Seconds     float64   `json:"seconds"`
	FirstSecond float64   `json:"first_step_seconds"` // with compiling
	StepSeconds float64   `json:"step_seconds"`       // the median of the others
	SamplesPerS float64   `json:"samples_per_s"`      // by that

	Unread int64 `json:"failed_samples,omitempty"` // others took their place

	BudgetBytes  int64          `json:"budget_bytes,omitempty"`
	PeakBytes    int64          `json:"peak_bytes"`    // of device memory in use
	PlannedBytes int64          `json:"planned_bytes"` // of the step
	Memory       session.Memory `json:"memory"`        // of the step, by what it is for
	Tasks        int            `json:"tasks"`
	Recomputed   int            `json:"recomputed_tasks"` // runs of tasks beyond their first

	Notes []string `json:"notes,omitempty"` // what was done in a slower way

	CheckpointFolder string `json:"checkpoint_folder,omitempty"`
	PlotFile         string `json:"plot_file,omitempty"`

	seconds []float64 // of each step
	plan    string    // to be printed
}

func newOutput(data string, f *trainFlags, dev device.Info) *output {
	average := ""
	if f.config.Ranks > 1 && f.average != "auto" {
		average = f.average
	}
	return &output{
		Record: provenance.Now().On(dev.ID, dev.Name), Data: data, Config: f.config, AMP: f.amp, Share: f.share, Average: average, BudgetBytes: f.budget,
		CheckpointFolder: f.checkpoint, PlotFile: f.plot, Losses: []float64{}, Skipped: []int{},
	}
}

// samples are those of a step, of all ranks.
func (o *output) samples() int { return o.Batch * o.Accumulate * o.Ranks }

func (o *output) add(loss float64, took time.Duration) {
	o.Losses = append(o.Losses, loss)
	o.seconds = append(o.seconds, took.Seconds())
}

func (o *output) finish(s *session.Session, f *trainFlags) {
	o.Steps, o.Loss = len(o.Losses), o.Losses[len(o.Losses)-1]
	o.FirstSecond, o.StepSeconds = o.seconds[0], o.seconds[0]
	if len(o.seconds) > 1 {
		o.StepSeconds = stats.Median(o.seconds[1:])
	}
	o.LossScale, _ = s.Scaling()
	o.SamplesPerS = float64(o.samples()) / o.StepSeconds
	o.Parameters, o.PeakBytes = s.Parameters(), s.PeakBytes()
	o.Unread, o.Notes = s.Unread(), s.Notes()
	plan := s.Plan()
	o.PlannedBytes, o.Memory, o.Tasks, o.Recomputed = plan.PeakBytes, plan.Memory, plan.Tasks, plan.Runs-plan.Tasks
	if f.plan {
		o.plan = plan.Text
	}
}

// textColumns are those of a curve where the output is no terminal.
const textColumns = 80

// skipped names steps that the scaler left out, the first few of them.
func skipped(steps []int) string {
	const most = 6
	switch n := len(steps); {
	case n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf("; gradients were not finite in step %d, which changed nothing", steps[0])
	default:
		first := strings.Trim(fmt.Sprint(steps[:min(n, most)]), "[]")
		if n > most {
			first += " …"
		}
		return fmt.Sprintf("; gradients were not finite in %d steps, which changed nothing: %s", n, first)
	}
}

func (o *output) print(w io.Writer) {
	kind := fmt.Sprintf("%s of %s", title(o.Model), units.Count(o.Layers, "layer"))
	samples := units.Count(o.samples(), "photo")
	if o.Model == models.GPT {
		samples = fmt.Sprintf("%s of %s", units.Count(o.samples(), "row"), units.Count(o.Context, "token"))
	}
	if o.Accumulate > 1 {
		samples += fmt.Sprintf(" in %s of %d", units.Count(o.Accumulate, "batch"), o.Batch)
	}
	if o.Ranks > 1 {
		samples += fmt.Sprintf(", %d on each of %s", o.Batch*o.Accumulate, units.Count(o.Ranks, "rank"))
	}
	fmt.Fprintf(w, "%s with %s parameters; a step is %s\n", kind, units.Grouped(int64(o.Parameters)), samples)
	fmt.Fprintf(w, "On %s, %s\n", o.Device, o.DeviceName)
	fmt.Fprintf(w, "Steps %d to %d in %s: %s a step, the first in %s; %s samples/s\n", o.FirstStep, o.FirstStep+o.Steps-1, units.Seconds(o.Seconds), units.Seconds(o.StepSeconds), units.Seconds(o.FirstSecond), units.Digits(o.SamplesPerS))
	fmt.Fprintf(w, "Loss %.4f, %.4f in the first of these steps\n", o.Loss, o.Losses[0])
	if o.Average != "" {
		fmt.Fprintf(w, "Ranks average gradients in %s\n", o.Average)
	}
	if o.LossScale > 0 {
		fmt.Fprintf(w, "Losses are scaled by %s%s\n", units.Digits(o.LossScale), skipped(o.Skipped))
	}
	columns := textColumns
	if l, ok := w.(texttable.Liner); ok && l.LineWidth() > 0 {
		columns = l.LineWidth()
	}
	if text := curve.Text(o.Losses, o.FirstStep, min(columns, textColumns)); text != "" {
		fmt.Fprintf(w, "\n%s", text)
	}
	t := texttable.New("memory of the step", ">")
	for _, row := range []struct {
		what  string
		bytes int64
	}{
		{"weights", o.Memory.Weights}, {"optimizer", o.Memory.Optimizer}, {"sums of gradients", o.Memory.Sums},
		{"batch", o.Memory.Batch}, {"activations and gradients", o.Memory.Between}, {"other", o.Memory.Other},
	} {
		if row.bytes > 0 {
			t.Add(row.what, units.Bytes(row.bytes))
		}
	}
	t.Add("together", units.Bytes(o.PlannedBytes))
	fmt.Fprintln(w)
	t.Write(w)
	if o.BudgetBytes > 0 {
		fmt.Fprintf(w, "Within a budget of %s; %s of %s run again\n", units.Bytes(o.BudgetBytes), units.Grouped(int64(o.Recomputed)), units.Count(o.Tasks, "task"))
	} else if o.Recomputed > 0 {
		fmt.Fprintf(w, "The device is too small for the whole step; %s of %s run again\n", units.Grouped(int64(o.Recomputed)), units.Count(o.Tasks, "task"))
	}
	if o.Unread > 0 {
		fmt.Fprintf(w, "%s could not be read, and others took their place\n", units.Count(o.Unread, "sample"))
	}
	fmt.Fprintf(w, "At most %s of device memory were in use, batches ahead included\n", units.Bytes(o.PeakBytes))
	for _, note := range o.Notes {
		fmt.Fprintf(w, "%s\n", note)
	}
	if o.plan != "" {
		fmt.Fprintf(w, "\nThe plan, whose times are estimates:\n%s", o.plan)
	}
	if o.CheckpointFolder != "" {
		fmt.Fprintf(w, "Checkpoint: %s\n", o.CheckpointFolder)
	}
	if o.PlotFile != "" {
		fmt.Fprintf(w, "Picture of the losses: %s\n", o.PlotFile)
	}
}
