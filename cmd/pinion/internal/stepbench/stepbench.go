// Package stepbench measures steps of models within budgets of device memory: what
// `pinion bench step` prints.
//
//	report, err := stepbench.Run(ctx, dev, stepbench.Options{Model: m, Budgets: []int64{0, 8 << 30}, Steps: 10})
package stepbench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	ranks "github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/plan"
)

// Options say what is measured.
type Options struct {
	Model *models.Model

	// Plain is the model without operations that an executor may lack. It is measured
	// in Model's place where that is so. nil: there is none.
	Plain *models.Model

	// Budgets are those of the steps, in bytes, in the order in which they are measured;
	// 0 is a step without one.
	Budgets []int64

	Steps int     // that are timed, of each; above 0
	Link  float64 // bytes a second, to plan with. Default: 0, as measured; below 0, nothing is sent
	Seed  uint64

	// Times is a file of how long tasks take. If it is there, plans are made of it;
	// otherwise it is written once the tasks of the first step were timed. May be empty.
	Times string

	// Ranks run the model together, and then each by itself what Alone is: the model
	// without sums over ranks. nil: there is one.
	Ranks *ranks.Ranks
	Alone *models.Model

	// Progress is told what begins, out of how many. May be nil.
	Progress func(done, total int, what string)
}

// Report is what was measured.
type Report struct {
	Plain bool // the plain model was measured
	Loss  float64
	Link  float64 // bytes a second that plans were made with

	// Seconds of each run of Options.Alone, in turn with those of the first step: of this
	// rank, and of the slowest one of each run.
	Alone, Slowest []float64

	Speed     parallel.Speed // of ranks together
	Simulated []Simulated    // of a step without a budget, on ranks

	Start time.Duration // to make the parameters, kernels included
	Steps []Step
	Tasks []Task   // of the first step, those that take most in all first
	Notes []string // of the executor, and of times that are missing
}

// Simulated is a step on so many ranks, predicted of measured times of its tasks.
type Simulated struct {
	Ranks           int
	Seconds, Waited float64 // that the step takes, and of these, that it waits for other ranks
}

// Task is what tasks of one kind took together.
type Task struct {
	Name    string // what they compute, and what they make
	Count   int
	Seconds float64
	Bytes   int64 // that they read and write
}

// Step is a step within a budget.
type Step struct {
	Budget int64
	Err    error // why it did not run: the budget is too small, or the device

	Compile   time.Duration // passes, fusion and plan
	First     time.Duration // the first run, in which kernels are made
	Times     []float64     // seconds, of each run
	Predicted float64       // seconds that the plan takes, by measured times of its tasks

	Tasks     int
	Peak      int64 // bytes that were predicted
	Allocated int64 // and allocated at most
	Kept      int64 // bytes of values that stay between tasks, at most
	Again     int   // tasks that run again
	AgainTook float64
	Sent      int // values that travel
	SentBytes int64
	Waited    float64 // seconds for copies, as planned

	Digest  uint64 // of the results of the last run
	Picture string // SVG
}

// counter is an allocator that knows how much it has given out.
type counter struct {
	device.Device
	mu        sync.Mutex
	sizes     map[device.Ptr]int64
	now, most int64
}

func (c *counter) Alloc(n int64) (device.Ptr, error) {
	p, err := c.Device.Alloc(n)
	if err != nil {
		return p, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes[p] = n
	c.now += n
	c.most = max(c.most, c.now)
	return p, nil
}

func (c *counter) Free(p device.Ptr) error {
	c.mu.Lock()
	c.now -= c.sizes[p]
	delete(c.sizes, p)
	c.mu.Unlock()
	return c.Device.Free(p)
}

// restart begins to look for the most anew.
func (c *counter) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = c.now
}

func (c *counter) peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// bench is a run of the benchmark.
type bench struct {
	Options
	exec   step.Executor
	count  *counter
	memory *step.Memory
	times  *step.Times // of tasks; nil before they are measured
	report *Report
	done   int
}

// Run measures a model. A budget that is too small is told in its step, and is no error.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	exec, err := auto.Open(dev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, exec.Close()) }()
	b := &bench{Options: o, exec: exec, count: &counter{Device: dev, sizes: map[device.Ptr]int64{}}, report: &Report{Link: o.Link}}
	if b.memory, err = step.OpenMemory(dev, b.count); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.memory.Close()) }()
	if o.Times != "" {
		if b.times, err = readTimes(o.Times, dev); err != nil {
			return nil, err
		}
	}
	if o.Link == 0 {
		b.progress("measuring the link")
		if b.report.Link, err = linkOf(dev); err != nil {
			return nil, fmt.Errorf("the link cannot be measured: %w; --no-link goes without", err)
		}
	}
	b.report.Link = max(b.report.Link, 0)
	if b.Ranks == nil {
		return b.report, b.run(ctx)
	}
	if err := b.agreeOnLink(ctx); err != nil {
		return nil, err
	}
	return b.report, b.Ranks.Do("the measurement", func() error {
		b.progress("measuring the ranks")
		if b.report.Speed, err = parallel.MeasureSpeed(ctx, b.Ranks.Comm); err != nil {
			return err
		}
		return b.run(ctx)
	})
}

// size is the number of ranks.
func (b *bench) size() int {
	if b.Ranks == nil {
		return 1
	}
	return b.Ranks.World.Size
}

// agreeOnLink has all ranks plan with the first one's link.
func (b *bench) agreeOnLink(ctx context.Context) error {
	all, err := b.Ranks.Exchange(ctx, "the rate of the link", fmt.Append(nil, b.report.Link))
	if err == nil {
		_, err = fmt.Sscan(string(all[0]), &b.report.Link)
	}
	return err
}

func (b *bench) run(ctx context.Context) error {
	for _, budget := range b.Budgets {
		s, err := b.measure(ctx, budget)
		if errors.Is(err, step.ErrNotSupported) && b.Plain != nil {
			b.Model, b.Plain, b.report.Plain = b.Plain, nil, true
			s, err = b.measure(ctx, budget)
		}
		var impossible *plan.ImpossibleError
		if errors.As(err, &impossible) || errors.Is(err, device.ErrOutOfMemory) {
			s.Err, err = err, nil
		}
		if err != nil {
			return err
		}
		b.report.Steps = append(b.report.Steps, s)
	}
	if n, ok := b.exec.(step.Noter); ok {
		b.report.Notes = append(b.report.Notes, n.Notes()...)
	}
	return nil
}

// missing notes how many tasks have no time in the file.
func (b *bench) missing(tasks []*step.Task) {
	n := 0
	for _, t := range tasks {
		if !b.times.Has(t) {
			n++
		}
	}
	if n > 0 {
		b.report.Notes = append(b.report.Notes, fmt.Sprintf("%s has no times of %d of %s: theirs are estimated", b.Times, n, units.Count(len(tasks), "task")))
	}
}

// readTimes are those in a file; nil if there is none.
func readTimes(path string, dev device.Device) (*step.Times, error) {
	times, err := step.ReadTimes(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if name := dev.Info().Name; err == nil && times.Device() != name {
		err = fmt.Errorf("stepbench: %w: the times in %s are those of %q, the device is %q", step.ErrArgument, path, times.Device(), name)
	}
	return times, err
}

// parts are those of a measurement that progress is told of.
const parts = 4

func (b *bench) progress(what string) {
	if b.Progress != nil {
		b.Progress(min(b.done, parts*len(b.Budgets)), parts*len(b.Budgets), what)
	}
	b.done++
}

// measure compiles and runs the model within a budget, from its first parameters.
func (b *bench) measure(ctx context.Context, budget int64) (s Step, err error) {
	s.Budget = budget
	b.count.restart()
	before := b.count.peak()
	b.progress("planning")
	began := time.Now()
	o := step.Options{Budget: budget, Donate: b.Model.Donate, Lend: b.Model.Lend, Link: b.report.Link, Memory: b.memory}
	if b.Ranks != nil {
		o.Ranks, o.RanksSpeed = b.Ranks.Comm, b.report.Speed
	}
	if b.times != nil {
		o.Seconds = b.times.Seconds
	}
	x, err := step.Compile(b.Model.Graph, b.exec, o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	s.Compile = time.Since(began)
	b.progress("making parameters")
	began = time.Now()
	in, err := b.Model.Start(ctx, b.exec, b.memory, b.Seed)
	if err != nil {
		return s, err
	}
	defer func() {
		for _, t := range in {
			err = errors.Join(err, t.Free())
		}
	}()
	if b.report.Start == 0 {
		b.report.Start = time.Since(began)
	}
	b.progress("running")
	s.Predicted = x.Plan().Seconds
	if b.times != nil && b.report.Tasks == nil {
		b.missing(x.Tasks())
	}
	if b.times == nil {
		began = time.Now()
		if b.times, err = x.Measure(ctx, in); err != nil {
			return s, err
		}
		s.First = time.Since(began)
		s.Predicted, _ = x.Predict(b.times.Seconds, b.size(), b.report.Speed)
		if b.Times != "" && (b.Ranks == nil || b.Ranks.World.Rank == 0) {
			if err := b.times.Write(b.Times); err != nil {
				return s, err
			}
		}
	}
	if b.report.Tasks == nil {
		b.report.Tasks = tasks(x, b.times.Seconds)
		if b.size() > 1 && budget == 0 {
			b.report.Simulated = simulate(x, b.times.Seconds, b.report.Speed)
		}
	}
	b.count.restart()
	runs := &runs{model: b.Model, x: x, in: in}
	defer func() { err = errors.Join(err, runs.close()) }()
	took, err := runs.step(ctx)
	if err != nil {
		return s, err
	}
	if s.First == 0 {
		s.First = took
	}
	s.Allocated = b.count.peak() - before
	if b.Alone != nil && budget == 0 {
		err = b.inTurn(ctx, &s, runs)
	} else {
		s.Times, err = runs.times(ctx, b.Steps)
	}
	if err != nil {
		return s, err
	}
	b.describe(&s, x)
	b.progress("comparing results")
	return s, b.compare(ctx, &s, runs.out)
}

// runs are those of a compiled model.
type runs struct {
	model *models.Model
	x     *step.Executable
	in    []*step.Tensor
	out   []*step.Tensor // of the last one
}

// step runs it once.
func (r *runs) step(ctx context.Context) (took time.Duration, err error) {
	if err := r.close(); err != nil {
		return 0, err
	}
	began := time.Now()
	r.out, err = r.model.Step(ctx, r.x, r.in)
	return time.Since(began), err
}

// times are the seconds of so many runs.
func (r *runs) times(ctx context.Context, n int) (list []float64, err error) {
	for range n {
		took, err := r.step(ctx)
		if err != nil {
			return list, err
		}
		list = append(list, took.Seconds())
	}
	return list, nil
}

func (r *runs) close() error {
	out := r.out
	r.out = nil
	if out == nil {
		return nil
	}
	return r.model.Free(out)
}

// inTurn times a step of ranks together, and one of each by itself, in turn, since how fast a
// device is changes with how warm it is. Ranks begin each at the same time. Where the device
// of any has no room for both, there is none of each by itself.
func (b *bench) inTurn(ctx context.Context, s *Step, together *runs) (err error) {
	alone := &runs{model: b.Alone}
	drop := func() error {
		all := []error{alone.close()}
		for _, t := range alone.in {
			all = append(all, t.Free())
		}
		if alone.x != nil {
			all = append(all, alone.x.Close())
		}
		alone.in, alone.x = nil, nil
		return errors.Join(all...)
	}
	defer func() { err = errors.Join(err, drop()) }()
	alone.x, err = step.Compile(b.Alone.Graph, b.exec, step.Options{Donate: b.Alone.Donate, Lend: b.Alone.Lend, Memory: b.memory})
	if err == nil {
		alone.in, err = b.Alone.Start(ctx, b.exec, b.memory, b.Seed)
	}
	if err == nil {
		_, err = alone.step(ctx)
	}
	if err != nil && !errors.Is(err, device.ErrOutOfMemory) {
		return err
	}
	fits, err := b.Ranks.Exchange(ctx, "whether one step fits beside the other", fmt.Append(nil, err == nil))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(fits, func(fits []byte) bool { return string(fits) != "true" }) {
		b.report.Notes = append(b.report.Notes, "there is no room for a step of ranks and one of each by itself, which are timed in turn")
		if err := drop(); err != nil {
			return err
		}
		s.Times, err = together.times(ctx, b.Steps)
		return err
	}
	const warm = 2 // runs that are not counted
	for i := range warm + b.Steps {
		for _, one := range []struct {
			*runs
			times *[]float64
		}{{together, &s.Times}, {alone, &b.report.Alone}} {
			if err := b.Ranks.Comm.Barrier(ctx); err != nil {
				return err
			}
			took, err := one.step(ctx)
			if err != nil {
				return err
			}
			if i >= warm {
				*one.times = append(*one.times, took.Seconds())
			}
		}
	}
	b.report.Slowest, err = b.slowest(ctx, b.report.Alone)
	return err
}

// slowest are the longest of all ranks' times.
func (b *bench) slowest(ctx context.Context, mine []float64) ([]float64, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	all, err := b.Ranks.Exchange(ctx, "how long a step of each by itself takes", text)
	if err != nil {
		return nil, err
	}
	most := slices.Clone(mine)
	for _, text := range all {
		var times []float64
		if err := json.Unmarshal(text, &times); err != nil {
			return nil, err
		}
		for i := range min(len(most), len(times)) {
			most[i] = max(most[i], times[i])
		}
	}
	return most, nil
}

// simulate predicts the step for other numbers of ranks, as fast together as these.
func simulate(x *step.Executable, seconds func(*step.Task) float64, speed parallel.Speed) (list []Simulated) {
	for n := 1; n <= 1024; n *= 2 {
		total, waited := x.Predict(seconds, n, speed)
		list = append(list, Simulated{Ranks: n, Seconds: total, Waited: waited})
	}
	return list
}

// tasks are those of a step by what they are.
func tasks(x *step.Executable, seconds func(*step.Task) float64) (list []Task) {
	at := map[string]int{}
	for _, t := range x.Tasks() {
		var made []string
		var bytes int64
		for _, v := range t.Outputs {
			made = append(made, v.Shape().String())
		}
		for _, v := range slices.Concat(t.Inputs, t.Outputs) {
			bytes += v.Shape().Bytes()
		}
		name := t.String() + ": " + strings.Join(made, ", ")
		k, ok := at[name]
		if !ok {
			k = len(list)
			at[name] = k
			list = append(list, Task{Name: name})
		}
		list[k].Count++
		list[k].Seconds += seconds(t)
		list[k].Bytes += bytes
	}
	slices.SortStableFunc(list, func(a, b Task) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return list
}

// describe says what was planned.
func (b *bench) describe(s *Step, x *step.Executable) {
	p := x.Plan()
	s.Tasks, s.Peak, s.Kept = len(x.Tasks()), x.PeakBytes(), p.Live-p.Resident
	s.AgainTook, s.Waited, s.SentBytes = p.Again, p.Waited, p.HostBytes
	for _, r := range p.Runs {
		if r.Again {
			s.Again++
		}
	}
	for _, l := range p.Lives {
		if l.Sent {
			s.Sent++
		}
	}
	s.Picture, _ = x.SVG() // of its own plan: it is one
}

// compare notes what the results are.
func (b *bench) compare(ctx context.Context, s *Step, out []*step.Tensor) (err error) {
	var shapes []graph.Shape
	for _, t := range out {
		shapes = append(shapes, t.Shape())
	}
	if slices.Contains(b.Model.Lend, true) && shapes[0].Rank() == 0 {
		if b.report.Loss, err = b.Model.Loss(out); err != nil {
			return err
		}
	}
	d, err := models.OpenDigest(b.exec, b.memory, shapes)
	if err != nil {
		return err
	}
	s.Digest, err = d.Sum(ctx, out)
	return errors.Join(err, d.Close())
}

// linkOf is how many bytes a second pinned memory carries to the device and back, the
// slower of both, while both are busy.
func linkOf(dev device.Device) (rate float64, err error) {
	const bytes, rounds = 32 << 20, 4
	pool, err := pinned.NewPool(dev, pinned.Options{Name: "link", Budget: 3 * bytes, AllowPageable: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	var streams [2]device.Stream
	var host [2]*pinned.Buffer
	var on [2]device.Ptr
	for i := range streams {
		if host[i], err = pool.Alloc(context.Background(), bytes); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, host[i].Free()) }()
		if on[i], err = dev.Alloc(bytes); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, dev.Free(on[i])) }()
		if streams[i], err = dev.NewStream(); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, streams[i].Close()) }()
	}
	var began time.Time
	for round := range rounds + 1 {
		if round == 1 { // the first one warms up
			for _, s := range streams {
				if err := s.Synchronize(); err != nil {
					return 0, err
				}
			}
			began = time.Now()
		}
		if err := errors.Join(streams[0].CopyH2D(on[0], host[0].Bytes()), streams[1].CopyD2H(host[1].Bytes(), on[1])); err != nil {
			return 0, err
		}
	}
	for _, s := range streams {
		if err := s.Synchronize(); err != nil {
			return 0, err
		}
	}
	if rate = rounds * bytes / time.Since(began).Seconds(); !(rate > 0) {
		return 0, fmt.Errorf("stepbench: the link carried %v bytes/s", rate)
	}
	return rate, nil
}
