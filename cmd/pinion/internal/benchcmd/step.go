package benchcmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/stepbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

func newStep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Measure training steps within budgets of device memory",
		Long: `Measure a step of a model, first without a limit of device memory, and then
within each --budget:

  gpt       a GPT forward and backward; gradients are results
  llama     a Llama of some 100M weights forward and backward, with Adam
  resnet50  ResNet-50 forward and backward; gradients are results
  gpt2      GPT-2 of 124M weights, forward for one token, with a cache

Weights are random. Sizes that are not given are those of the models in the
project's benchmarks, which are for a large GPU.

The tasks of the first step are timed as parts of it; plans for the budgets are
made of these times and of the link's rate. --times keeps them: with the same
times and rate, plans are the same. Each model needs a file of its own.

STEP is the median of --steps runs, PLANNED what the plan says that it takes.
PEAK is the memory that the plan says, ALLOCATED what was allocated at most.
KEPT is the most that lies between tasks, AGAIN is what is computed again, SENT
what travels to the host and back. RESULTS compares the bits of all results with
those of the first step. A budget that is impossible is named below the table,
and the others are run.

Started by mpirun, srun or torchrun, ranks average their gradients; --batch is
for each. The first prints, also how long each takes alone, and what a step
would take on 1 to 1,024 ranks as fast together as these, and writes files.

--latency runs gpt2 for one token after the other, each from before it is given
until the next one is there, and prints how long the slowest took.`,
		Example: `  pinion bench step
  pinion bench step --model gpt --budget 13.7GiB,12GiB --plan plan.svg
  pinion bench step --model resnet50 --batch 64 --json > step.json
  pinion bench step --model gpt2 --dtype bf16 --latency
  mpirun -n 2 pinion bench step --device host --layers 2 --width 64 --heads 2 \
      --batch 2 --length 64 --vocabulary 256
  pinion bench step --device host --layers 2 --width 64 --heads 2 --batch 2 \
      --length 64 --vocabulary 256`,
		Args: cli.NoArgs,
	}
	f := stepFlags{device: cli.DeviceFlag(cmd)}
	set := cmd.Flags()
	flags.Choice(set, &f.model, "model", "gpt", []string{"gpt", "llama", "resnet50", "gpt2"}, "what to run")
	set.BoolVar(&f.noCopies, "no-copies", false, "have ranks sum up by NCCL alone, not by copy engines")
	flags.Choice(set, &f.average, "average", "auto", []string{"auto", "f32", "bf16", "f16"}, "type in which ranks average gradients of a wider one; auto is their own")
	flags.Choice(set, &f.dtype, "dtype", "bf16", []string{"bf16", "f16", "f32", "f64"}, "type of products; weights and sums are f32, or f64 with f64")
	flags.Choice(set, &f.optimizer, "optimizer", "", []string{"none", "sgd", "adam"}, "what becomes of gradients (default: adam for llama, none for others)")
	flags.Choice(set, &f.attention, "attention", "auto", []string{"auto", "plain"}, "auto is one operation where the device has it; plain has scores in memory")
	for _, n := range []struct {
		p           *int
		name, usage string
	}{
		{&f.layers, "layers", "layers"}, {&f.width, "width", "width of a layer"}, {&f.heads, "heads", "heads of attention"},
		{&f.batch, "batch", "sequences, or images"}, {&f.length, "length", "tokens of a sequence"}, {&f.vocabulary, "vocabulary", "different tokens"},
		{&f.image, "image", "pixels along an image's edge"},
	} {
		flags.Int(set, n.p, n.name, 0, flags.AtLeast(1), n.usage+" (default: the model's)")
	}
	flags.Sizes(set, &f.budgets, "budget", nil, true, "device memory to plan for, beside a step without a limit")
	flags.Int(set, &f.steps, "steps", 10, flags.AtLeast(1), "timed runs of each step; with --latency, hundreds of them")
	set.BoolVar(&f.latency, "latency", false, "print how long the slowest of many runs take")
	set.BoolVar(&f.noLink, "no-link", false, "send nothing to the host")
	set.BoolVar(&f.tasks, "tasks", false, "also print what the first step's time goes to")
	set.StringVar(&f.plan, "plan", "", "`FILE` for an SVG picture of the plan for the last budget")
	set.StringVar(&f.times, "times", "", "plan with the tasks' times in this `FILE`, or write it if it is not there")
	set.BoolVar(&f.json, "json", false, "print one JSON document")
	cmd.RunE = cli.TraceFlag(set).Run(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) })
	return cli.Ranked(cmd, "plan", "trace", "http", "http-public")
}

type stepFlags struct {
	device                                          *string
	model, dtype, optimizer, attention, plan, times string
	average                                         string
	noCopies                                        bool
	layers, width, heads, batch, length, vocabulary int
	image, steps                                    int
	budgets                                         []int64
	latency, noLink, tasks, json                    bool

	ranks *auto.Ranks
}

// unused are flags that are not for a model.
var unused = map[string][]string{
	"gpt":      {"image"},
	"llama":    {"image"},
	"resnet50": {"layers", "heads", "length", "vocabulary", "attention"},
	"gpt2":     {"average", "no-copies", "batch", "image", "optimizer", "attention"},
}

// orElse sets sizes that were not given.
func orElse(sizes map[*int]int) {
	for p, n := range sizes {
		if *p == 0 {
			*p = n
		}
	}
}

var stepTypes = map[string]dtype.DType{"bf16": dtype.BF16, "f16": dtype.F16, "f32": dtype.F32, "f64": dtype.F64}

// make makes the model, with a name for it and its sizes.
func (f *stepFlags) make(plain, ranks bool) (m *models.Model, name string, err error) {
	t, types := stepTypes[f.dtype], f.dtype
	if ranks && f.average != "auto" {
		types += ", averaged in " + f.average
	}
	optimizer := map[string]models.Optimizer{"sgd": models.SGD, "adam": models.Adam}[f.optimizer]
	switch f.model {
	case "gpt", "llama":
		if f.model == "gpt" {
			orElse(map[*int]int{&f.layers: 24, &f.width: 2048, &f.heads: 16, &f.batch: 16, &f.length: 1024, &f.vocabulary: 32768})
		} else {
			orElse(map[*int]int{&f.layers: 12, &f.width: 768, &f.heads: 12, &f.batch: 16, &f.length: 1024, &f.vocabulary: 16384})
			if f.optimizer == "" {
				optimizer = models.Adam
			}
		}
		c := models.GPT{Layers: f.layers, Width: f.width, Heads: f.heads, Batch: f.batch, Length: f.length, Vocabulary: f.vocabulary,
			Type: t, Optimizer: optimizer, PlainAttention: plain, Ranks: ranks, Average: stepTypes[f.average]}
		name = fmt.Sprintf("%d x %d, %d x %d, %s", f.layers, f.width, f.batch, f.length, types)
		if f.model == "llama" {
			m, err = models.Llama{GPT: c}.Model()
			return m, "Llama " + name, err
		}
		m, err = c.Model()
		return m, "GPT " + name, err
	case "resnet50":
		orElse(map[*int]int{&f.batch: 64, &f.image: 224})
		m, err = models.ResNet{Width: f.width, Batch: f.batch, Size: f.image, Type: t, Optimizer: optimizer, Ranks: ranks, Average: stepTypes[f.average]}.Model()
		return m, fmt.Sprintf("ResNet-50, %d x %d px, %s", f.batch, f.image, types), err
	}
	m, err = models.GPT2{Layers: f.layers, Width: f.width, Heads: f.heads, Length: f.length, Vocabulary: f.vocabulary, Type: t}.Model()
	if err != nil {
		return nil, "", err
	}
	name = "GPT-2"
	if f.layers+f.width+f.heads+f.length+f.vocabulary > 0 { // none of those that go by that name
		name = m.Graph.Name()
	}
	return m, name + ", one token, " + f.dtype, err
}

func (f *stepFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	world, err := launch.FromEnv()
	if err != nil {
		return err
	}
	dev, err := cli.OpenRankDevice(cmd, *f.device, world.LocalRank, world.LocalSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if f.ranks, err = auto.Open(cmd.Context(), dev, auto.Options{World: &world, NoCopies: f.noCopies}); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.ranks.Close()) }() // which repeats why the run has failed
	defer func() {
		if err != nil {
			f.ranks.Fail(err)
		}
	}()
	return f.runOn(cmd, dev)
}

func (f *stepFlags) check(cmd *cobra.Command) error {
	for _, n := range f.budgets {
		if n <= 0 {
			return cli.BadUsage(cmd, "--budget has %s, but must be above 0", units.Bytes(n))
		}
	}
	if f.latency && (len(f.budgets) > 0 || f.plan != "" || f.times != "") {
		return cli.BadUsage(cmd, "--latency takes neither --budget nor --plan nor --times")
	}
	if f.latency && f.model != "gpt2" {
		return cli.BadUsage(cmd, "--latency needs --model gpt2")
	}
	for _, name := range unused[f.model] {
		if cmd.Flags().Changed(name) {
			return cli.BadUsage(cmd, "--%s is not for --model %s", name, f.model)
		}
	}
	if f.plan == "" && cmd.Flags().Changed("plan") {
		return cli.BadUsage(cmd, "--plan needs the name of a file")
	}
	if _, _, err := f.make(f.attention == "plain", false); err != nil {
		return cli.BadUsage(cmd, "%v", err)
	}
	return nil
}

func (f *stepFlags) runOn(cmd *cobra.Command, dev device.Device) error {
	if f.model == "gpt2" && f.ranks.Comm != nil {
		return cli.BadUsage(cmd, "--model gpt2 is for one rank, and there are %d", f.ranks.World.Size)
	}
	m, name, err := f.make(f.attention == "plain", f.ranks.Comm != nil)
	if err != nil {
		return cli.BadUsage(cmd, "%v", err)
	}
	var file *atomicfile.File
	if f.plan != "" {
		if file, err = cli.CreateFile(f.plan); err != nil {
			return err
		}
	}
	out, picture, err := f.measure(cmd, dev, m, name)
	if file != nil {
		if err != nil {
			return errors.Join(err, file.Discard())
		}
		if err := cli.FinishFile(file, func(w io.Writer) error {
			_, err := io.WriteString(w, picture)
			return err
		}); err != nil {
			return err
		}
		out.Plan = f.plan
	}
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

func (f *stepFlags) measure(cmd *cobra.Command, dev device.Device, m *models.Model, name string) (out *stepOutput, picture string, err error) {
	info := dev.Info()
	out = &stepOutput{Record: provenance.Now().On(info.ID, info.Name), What: "step", Model: name, Weights: m.Weights, Repeats: f.steps, Rows: []stepRow{}}
	line := cli.NewProgress(cmd)
	defer line.Clear()
	if f.latency {
		l, err := stepbench.RunLatency(cmd.Context(), dev, m, 100*f.steps, 1, line.Show)
		if err != nil {
			return nil, "", err
		}
		out.addLatency(l)
		return out, "", nil
	}
	o := stepbench.Options{Model: m, Budgets: append([]int64{0}, f.budgets...), Steps: f.steps, Seed: 1, Times: f.times, Progress: line.Show}
	if f.noLink {
		o.Link = -1
	}
	if f.ranks.Comm != nil {
		o.Ranks = f.ranks
		if o.Alone, _, err = f.make(f.attention == "plain", false); err != nil {
			return nil, "", err
		}
		text, err := json.Marshal([]any{name, f.budgets, f.steps, f.noLink})
		if err == nil {
			err = f.ranks.Agree(cmd.Context(), "what is measured", string(text))
		}
		if err != nil {
			return nil, "", err
		}
	}
	if f.attention == "auto" && (f.model == "gpt" || f.model == "llama") {
		if o.Plain, _, err = f.make(true, f.ranks.Comm != nil); err != nil {
			return nil, "", err
		}
	}
	r, err := stepbench.Run(cmd.Context(), dev, o)
	if err != nil {
		return nil, "", err
	}
	out.Plain = r.Plain || f.attention == "plain"
	out.add(r)
	out.Notes = r.Notes
	if f.ranks.Comm != nil && r.Steps[0].Err == nil && len(r.Alone) > 0 {
		together, alone, slowest := stats.Median(r.Steps[0].Times), stats.Median(r.Alone), stats.Median(r.Slowest)
		n := f.ranks.World.Size
		out.Ranks = &ranksRow{
			Ranks: n, AloneSeconds: alone, SlowestSeconds: slowest, Speedup: float64(n) * alone / together,
			Unhidden: max(0, 1-alone/together), UnhiddenOfSlowest: max(0, 1-slowest/together),
			LatencySeconds: r.Speed.Latency.Seconds(), BusGBPerS: r.Speed.Bus / 1e9,
		}
		for _, s := range r.Simulated {
			out.Ranks.Simulated = append(out.Ranks.Simulated, simulatedRow{s.Ranks, s.Seconds, s.Waited})
		}
	}
	if f.tasks {
		out.addTasks(r.Tasks)
	}
	for _, s := range r.Steps {
		if s.Err == nil {
			picture = s.Picture
		}
	}
	return out, picture, nil
}

// stepOutput is the JSON document of pinion bench step.
type stepOutput struct {
	provenance.Record
	What       string       `json:"what"`
	Model      string       `json:"model"`
	Weights    int64        `json:"weights"`
	Repeats    int          `json:"repeats"`
	Plain      bool         `json:"plain_attention,omitempty"`
	Ranks      *ranksRow    `json:"ranks,omitempty"`
	Loss       *float64     `json:"loss,omitempty"`
	LinkGBPerS float64      `json:"link_gb_per_s,omitempty"`
	Plan       string       `json:"plan,omitempty"`
	Rows       []stepRow    `json:"rows"`
	Steps      []budgetStep `json:"steps,omitempty"`
	Tasks      []taskRow    `json:"tasks,omitempty"`
	Latency    *latencyRow  `json:"latency,omitempty"`
	Notes      []string     `json:"notes,omitempty"` // what was done otherwise than usual
}

// ranksRow is what ranks gain and lose by being several, without a budget.
type ranksRow struct {
	Ranks        int     `json:"ranks"`
	AloneSeconds float64 `json:"alone_seconds"`     // a step of each by itself, all at the same time, in turn with those together
	Speedup      float64 `json:"speedup"`           // samples a second of all, of those of one
	Unhidden     float64 `json:"unhidden_fraction"` // of a step: that it takes longer than alone

	// The same beside the slowest rank of each run by itself, for which the others wait.
	SlowestSeconds    float64 `json:"alone_slowest_seconds"`
	UnhiddenOfSlowest float64 `json:"unhidden_fraction_of_slowest"`

	LatencySeconds float64        `json:"latency_seconds"` // of an all-reduce of 8 bytes
	BusGBPerS      float64        `json:"bus_gb_per_s"`    // of a large one, as nccl-tests counts
	Simulated      []simulatedRow `json:"simulated,omitempty"`
}

// simulatedRow is a step that so many ranks would take, as fast together as those there are.
type simulatedRow struct {
	Ranks         int     `json:"ranks"`
	StepSeconds   float64 `json:"step_seconds"`
	WaitedSeconds float64 `json:"waited_seconds"` // of these, for other ranks
}

func (r *ranksRow) writeSimulated(w io.Writer) {
	if len(r.Simulated) == 0 {
		return
	}
	fmt.Fprintf(w, "\nSimulated, of the times of tasks, and of ranks that sum up at %s GB/s on the bus and 8 bytes in %s, as these do:\n\n",
		units.Digits(r.BusGBPerS), units.Seconds(r.LatencySeconds))
	t := texttable.New(">RANKS", ">STEP", ">WAITS FOR RANKS", ">TIMES AS FAST AS ONE")
	for _, s := range r.Simulated {
		t.Add(fmt.Sprint(s.Ranks), units.Seconds(s.StepSeconds), fmt.Sprintf("%.1f %%", 100*s.WaitedSeconds/s.StepSeconds),
			fmt.Sprintf("%.2f", float64(s.Ranks)*r.Simulated[0].StepSeconds/s.StepSeconds))
	}
	t.Write(w)
}

// taskRow is what tasks of one kind took together.
type taskRow struct {
	Name    string  `json:"name"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
	GBPerS  float64 `json:"gb_per_s"` // that they read and write
}

// stepRow is a figure in the form that programs are compared in.
type stepRow struct {
	Name  string  `json:"name"`
	By    string  `json:"by"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Min   float64 `json:"min,omitempty"`
	Max   float64 `json:"max,omitempty"`
}

type budgetStep struct {
	BudgetBytes      int64    `json:"budget_bytes"` // 0: none
	Error            string   `json:"error,omitempty"`
	StepSeconds      float64  `json:"step_seconds,omitempty"`
	MinSeconds       float64  `json:"min_seconds,omitempty"`
	MaxSeconds       float64  `json:"max_seconds,omitempty"`
	PredictedSeconds float64  `json:"predicted_seconds,omitempty"`
	PredictedBytes   int64    `json:"predicted_bytes,omitempty"`
	PeakBytes        int64    `json:"peak_bytes,omitempty"`
	KeptBytes        int64    `json:"kept_bytes,omitempty"`
	Tasks            int      `json:"tasks,omitempty"`
	AgainTasks       int      `json:"again_tasks,omitempty"`
	AgainSeconds     float64  `json:"again_seconds,omitempty"`
	SentValues       int      `json:"sent_values,omitempty"`
	SentBytes        int64    `json:"sent_bytes,omitempty"`
	WaitedSeconds    float64  `json:"waited_seconds,omitempty"`
	CompileSeconds   float64  `json:"compile_seconds,omitempty"`
	FirstSeconds     float64  `json:"first_run_seconds,omitempty"`
	Digest           string   `json:"digest,omitempty"`
	Equal            *bool    `json:"results_equal,omitempty"` // to those of the first step
	Slowdown         *float64 `json:"of_first_ratio,omitempty"`
}

type latencyRow struct {
	Runs           int     `json:"runs"`
	P50Seconds     float64 `json:"p50_seconds"`
	P99Seconds     float64 `json:"p99_seconds"`
	P999Seconds    float64 `json:"p999_seconds"`
	MaxSeconds     float64 `json:"max_seconds"`
	PeakBytes      int64   `json:"peak_bytes"`
	Tasks          int     `json:"tasks"`
	Recorded       bool    `json:"recorded"` // each run is one launch
	CompileSeconds float64 `json:"compile_seconds"`
	FirstSeconds   float64 `json:"first_run_seconds"`
}

const bytesPerGiB = 1 << 30

func (o *stepOutput) add(r *stepbench.Report) {
	o.LinkGBPerS = r.Link / 1e9
	if r.Loss != 0 {
		o.Loss = &r.Loss
	}
	for _, s := range r.Steps {
		by, row := "Pinion, no budget", budgetStep{BudgetBytes: s.Budget}
		if s.Budget > 0 {
			by = "Pinion, " + units.Bytes(s.Budget)
		}
		if s.Err != nil {
			row.Error = s.Err.Error()
			o.Steps = append(o.Steps, row)
			continue
		}
		median, least, most := stats.Spread(s.Times)
		row = budgetStep{
			BudgetBytes: s.Budget, StepSeconds: median, MinSeconds: least, MaxSeconds: most, PredictedSeconds: s.Predicted,
			PredictedBytes: s.Peak, PeakBytes: s.Allocated, KeptBytes: s.Kept, Tasks: s.Tasks,
			AgainTasks: s.Again, AgainSeconds: s.AgainTook, SentValues: s.Sent, SentBytes: s.SentBytes, WaitedSeconds: s.Waited,
			CompileSeconds: s.Compile.Seconds(), FirstSeconds: s.First.Seconds(), Digest: fmt.Sprintf("%016x", s.Digest),
		}
		if k := slices.IndexFunc(o.Steps, func(f budgetStep) bool { return f.Error == "" }); k >= 0 {
			equal, ratio := o.Steps[k].Digest == row.Digest, median/o.Steps[k].StepSeconds
			row.Equal, row.Slowdown = &equal, &ratio
		}
		o.Steps = append(o.Steps, row)
		o.Rows = append(o.Rows,
			stepRow{Name: o.Model, By: by, Unit: "ms", Value: 1e3 * median, Min: 1e3 * least, Max: 1e3 * most},
			stepRow{Name: o.Model + ", memory", By: by, Unit: "GiB", Value: float64(s.Allocated) / bytesPerGiB})
	}
}

// mostTasks is how many kinds of tasks are listed.
const mostTasks = 30

func (o *stepOutput) addTasks(list []stepbench.Task) {
	for _, t := range list[:min(len(list), mostTasks)] {
		o.Tasks = append(o.Tasks, taskRow{t.Name, t.Count, t.Seconds, float64(t.Bytes) / max(t.Seconds, 1e-9) / 1e9})
	}
}

func (o *stepOutput) addLatency(l *stepbench.Latency) {
	o.Latency = &latencyRow{
		Runs: len(l.Times), P50Seconds: l.At(0.5), P99Seconds: l.At(0.99), P999Seconds: l.At(0.999), MaxSeconds: l.At(1),
		PeakBytes: l.Peak, Tasks: l.Tasks, Recorded: l.Recorded, CompileSeconds: l.Compile.Seconds(), FirstSeconds: l.First.Seconds(),
	}
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
		o.Rows = append(o.Rows, stepRow{Name: o.Model + ", " + p.name, By: "Pinion", Unit: "ms", Value: 1e3 * l.At(p.share)})
	}
}

// longestTask is how much of the operations of a task is printed, in bytes.
const longestTask = 60

func (o *stepOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s\n%s, %s", o.Device, o.DeviceName, o.Model, units.Grouped(o.Weights)+" weights")
	if o.Plain {
		fmt.Fprint(w, ", attention by products")
	}
	fmt.Fprintln(w)
	for _, note := range o.Notes {
		fmt.Fprintln(w, note)
	}
	if o.Latency != nil {
		o.printLatency(w)
		return
	}
	if o.Loss != nil {
		fmt.Fprintf(w, "the loss is %.4f; ", *o.Loss)
	}
	if o.LinkGBPerS > 0 {
		fmt.Fprintf(w, "plans send at %s GB/s\n\n", units.Digits(o.LinkGBPerS))
	} else {
		fmt.Fprint(w, "plans send nothing\n\n")
	}
	t := texttable.New("BUDGET", ">STEP", ">OF FIRST", ">PLANNED", ">PEAK", ">ALLOCATED", ">KEPT", ">AGAIN", ">SENT", ">WAITED", ">COMPILED IN", "RESULTS")
	var failed []string
	for _, s := range o.Steps {
		budget := "none"
		if s.BudgetBytes > 0 {
			budget = units.Bytes(s.BudgetBytes)
		}
		if s.Error != "" {
			failed = append(failed, fmt.Sprintf("%s: %s", budget, s.Error))
			continue
		}
		ratio, results := "", s.Digest
		if s.Slowdown != nil {
			ratio, results = fmt.Sprintf("%.2fx", *s.Slowdown), "the same bits"
			if !*s.Equal {
				results = "DIFFERENT: " + s.Digest
			}
		}
		t.Add(budget, units.Seconds(s.StepSeconds), ratio, units.Seconds(s.PredictedSeconds), units.Bytes(s.PredictedBytes), units.Bytes(s.PeakBytes),
			units.Bytes(s.KeptBytes), fmt.Sprintf("%d of %d", s.AgainTasks, s.Tasks), units.Bytes(s.SentBytes), units.Seconds(s.WaitedSeconds), units.Seconds(s.CompileSeconds), results)
	}
	t.Write(w)
	if r := o.Ranks; r != nil {
		fmt.Fprintf(w, "\n%d ranks are %.2fx as fast as one, whose step takes %s; %.1f %% of a step is not hidden behind computing, %.1f %% beside the slowest rank alone\n",
			r.Ranks, r.Speedup, units.Seconds(r.AloneSeconds), 100*r.Unhidden, 100*r.UnhiddenOfSlowest)
		r.writeSimulated(w)
	}
	if len(o.Tasks) > 0 {
		fmt.Fprintln(w)
		t := texttable.New(">TIME", ">TASKS", ">GB/S", "OF THE FIRST STEP")
		for _, x := range o.Tasks {
			name := x.Name
			if at := strings.LastIndex(name, ": "); at > longestTask {
				name = name[:longestTask] + "…" + name[at:]
			}
			t.Add(units.Seconds(x.Seconds), fmt.Sprint(x.Count), units.Digits(x.GBPerS), name)
		}
		t.Write(w)
	}
	if len(failed) > 0 {
		fmt.Fprintf(w, "\nNot run:\n  %s\n", strings.Join(failed, "\n  "))
	}
}

func (o *stepOutput) printLatency(w io.Writer) {
	l := o.Latency
	t := texttable.New(">RUNS", ">P50", ">P99", ">P99.9", ">SLOWEST", ">PEAK", ">TASKS", ">COMPILED IN", ">FIRST RUN")
	t.Add(units.Grouped(int64(l.Runs)), units.Seconds(l.P50Seconds), units.Seconds(l.P99Seconds), units.Seconds(l.P999Seconds), units.Seconds(l.MaxSeconds),
		units.Bytes(l.PeakBytes), fmt.Sprint(l.Tasks), units.Seconds(l.CompileSeconds), units.Seconds(l.FirstSeconds))
	fmt.Fprintln(w)
	t.Write(w)
	if !l.Recorded {
		fmt.Fprintf(w, "\nThis device records no work: the tasks of each run are queued one by one.\n")
	}
}
