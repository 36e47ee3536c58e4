package step

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/stats"
)

// Of a measurement: how often the step runs to warm up, which is until so much time has
// passed, or, of ranks, who run it equally often, as often as it may, and how often it then
// runs whole and in parts.
const (
	leastWarm = 3 // the third run of a recorded step is the first that is only launched
	mostWarm  = 20
	warm      = 250 * time.Millisecond
	rounds    = 3
)

// Measure runs the step several times, and says how long each task takes in it. Inputs
// are as for [Executable.Run]; none is donated. The same graph, or one with tasks of the
// same kind, is then planned with these times ([Options].Seconds).
//
// Marks around a task cost time on the device, 2 to 3 µs that tasks behind each other do
// not take, and a device that has just begun to work is faster than one that has worked
// for a while. So the step is run until the device is warm, and then in turn with marks
// and without, as [Executable.Run] runs it. Tasks take what is between their marks, less
// what the marks add to the whole, the same for each: together they take as long as the
// step does without. Where that is not shorter, as where the processor does not queue
// tasks fast enough, all tasks take more by the same share. Copies, and what is waited
// for, are no part of a task. Of each number, the median counts; times have three digits.
//
// To measure a step that does not fit without a plan, compile it with a budget first.
func (x *Executable) Measure(ctx context.Context, inputs []*Tensor) (times *Times, err error) {
	m := &measurement{Executable: x}
	defer func() { err = keepFirst(err, m.close()) }()
	if err := m.open(); err != nil {
		return nil, err
	}
	results, err := x.run(ctx, inputs, nil, func(at []device.Ptr) error {
		return keepFirst(m.measure(ctx, at), x.synchronize())
	})
	for _, t := range results {
		err = keepFirst(err, t.Free())
	}
	if err != nil {
		return nil, err
	}
	return m.times(), nil
}

// marks are events of a run with its tasks. One stands behind each task. What is before it
// is the mark behind the task before, unless there is something between them, such as a
// wait for a copy.
type marks struct{ before, behind []device.Event }

func (m *marks) count() (n int) {
	for _, e := range slices.Concat(m.before, m.behind) {
		if e != nil {
			n++
		}
	}
	return n
}

// measurement is a step that is being measured.
type measurement struct {
	*Executable
	marks      marks
	begin, end device.Event

	whole, marked []float64   // seconds of a run, in each round
	took          [][]float64 // of each of the plan's runs, in each round
}

// open makes events.
func (m *measurement) open() (err error) {
	event := func() (e device.Event) {
		if err == nil {
			e, err = m.dev.NewEvent(0)
		}
		return e
	}
	n := len(m.launches)
	m.marks = marks{make([]device.Event, n), make([]device.Event, n)}
	m.took = make([][]float64, n)
	for i := range m.launches {
		if i == 0 || m.between(i) {
			m.marks.before[i] = event()
		}
		m.marks.behind[i] = event()
	}
	m.begin, m.end = event(), event()
	return err
}

// between reports whether the stream of the computation has something to do between a
// task and the one before it.
func (m *measurement) between(i int) bool {
	n := m.launches[i]
	return len(n.copies.Release)+len(n.copies.Fetch)+len(n.copies.Wait)+len(n.ranks)+len(m.launches[i-1].sent) > 0
}

func (m *measurement) close() (err error) {
	for _, e := range slices.Concat(m.marks.before, m.marks.behind, []device.Event{m.begin, m.end}) {
		if e != nil {
			err = keepFirst(err, e.Close())
		}
	}
	return err
}

// measure runs the step with buffers at addresses.
func (m *measurement) measure(ctx context.Context, at []device.Ptr) error {
	whole := func() error { return m.perform(ctx, at) }
	began := time.Now()
	for i := 0; i < leastWarm || i < mostWarm && (m.streams[ranks] != nil || time.Since(began) < warm); i++ {
		if _, err := m.time(whole); err != nil {
			return err
		}
	}
	for range rounds {
		for _, k := range []struct {
			list *[]float64
			run  func() error
		}{{&m.marked, func() error { return m.queue(ctx, at, &m.marks) }}, {&m.whole, whole}} {
			s, err := m.time(k.run)
			if err != nil {
				return err
			}
			*k.list = append(*k.list, s)
		}
		for i := range m.took {
			from := m.marks.before[i]
			if from == nil {
				from = m.marks.behind[i-1]
			}
			d, err := m.marks.behind[i].Since(from)
			if err != nil {
				return err
			}
			m.took[i] = append(m.took[i], d.Seconds())
		}
	}
	return nil
}

// time is how many seconds a run takes on the device.
func (m *measurement) time(run func() error) (float64, error) {
	here := m.streams[compute]
	if err := here.Record(m.begin); err != nil {
		return 0, err
	}
	if err := run(); err != nil {
		return 0, err
	}
	if err := here.Record(m.end); err != nil {
		return 0, err
	}
	if err := here.Synchronize(); err != nil {
		return 0, err
	}
	d, err := m.end.Since(m.begin)
	return d.Seconds(), err
}

// times are those of the tasks' kinds.
func (m *measurement) times() *Times {
	took, busy := make([]float64, len(m.took)), 0.0
	for i, list := range m.took {
		took[i] = stats.Median(list)
		busy += took[i]
	}
	// What a mark costs. Runs with marks and without wait for the same copies.
	each := (stats.Median(m.marked) - stats.Median(m.whole)) / float64(m.marks.count())
	took = without(took, busy-each*float64(len(took)))
	times := &Times{device: m.dev.Info().Name, tasks: map[string]taskTime{}}
	counts := map[string]float64{}
	for i, r := range m.plan.Runs {
		task := m.unit(r.Op).task
		kind := task.kind()
		times.tasks[kind] = taskTime{kind, task.String(), times.tasks[kind].Seconds + took[i]}
		counts[kind]++
	}
	for kind, t := range times.tasks {
		t.Seconds = threeDigits(t.Seconds / counts[kind])
		times.tasks[kind] = t
	}
	return times
}

// threeDigits rounds, so that noise is not taken for a difference.
func threeDigits(seconds float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(seconds, 'e', 2, 64), 64)
	return rounded
}

// leastShare is how much of a measured time is the task's at least.
const leastShare = 0.25

// without takes the same from each time, so that they add up to whole. If that is more
// than they do, or so little that hardly anything would be left, they keep their shares.
func without(times []float64, whole float64) []float64 {
	sum := func(less float64) (sum float64) {
		for _, t := range times {
			sum += max(t-less, leastShare*t)
		}
		return sum
	}
	busy := sum(0)
	if busy <= 0 || whole <= 0 {
		return times
	}
	low, high := 0.0, slices.Max(times)
	if whole < busy {
		for range 50 {
			if mid := (low + high) / 2; sum(mid) > whole {
				low = mid
			} else {
				high = mid
			}
		}
	}
	share := whole / sum(low)
	list := make([]float64, len(times))
	for i, t := range times {
		list[i] = share * max(t-low, leastShare*t)
	}
	return list
}
