package step_test

import (
	"context"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// simulated is a device on whose streams time passes as kernels, copies and marks take it,
// and nothing else happens.
type simulated struct {
	device.Device
	rate    float64 // bytes a second that a stream copies
	latency float64 // seconds that a copy takes besides
	mark    float64 // seconds that a mark takes whose time is asked for
	launch  float64 // seconds that the processor takes to queue a kernel

	host    float64 // when the processor queues what comes next
	streams []*simulatedStream
	ran     int // kernels
}

type simulatedStream struct {
	device.Stream
	on  *simulated
	now float64
}

type simulatedEvent struct {
	device.Event
	timing bool
	at     float64
}

func (d *simulated) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	d.streams = append(d.streams, &simulatedStream{Stream: s, on: d})
	return d.streams[len(d.streams)-1], err
}

func (d *simulated) NewEvent(f device.EventFlags) (device.Event, error) {
	e, err := d.Device.NewEvent(f)
	return &simulatedEvent{Event: e, timing: f&device.EventNoTiming == 0}, err
}

// now is when everything is done that was queued.
func (d *simulated) now() (most float64) {
	for _, s := range d.streams {
		most = max(most, s.now)
	}
	return most
}

func (s *simulatedStream) pass(seconds float64) { s.now = max(s.now, s.on.host) + seconds }

func (s *simulatedStream) CopyH2D(_ device.Ptr, src []byte) error {
	s.pass(float64(len(src))/s.on.rate + s.on.latency)
	return nil
}

func (s *simulatedStream) CopyD2H(dst []byte, _ device.Ptr) error {
	s.pass(float64(len(dst))/s.on.rate + s.on.latency)
	return nil
}

func (s *simulatedStream) Record(e device.Event) error {
	event := e.(*simulatedEvent)
	if event.timing {
		s.pass(s.on.mark)
	}
	event.at = max(s.now, s.on.host)
	return nil
}

func (s *simulatedStream) Wait(e device.Event) error {
	s.now = max(s.now, e.(*simulatedEvent).at)
	return nil
}

func (s *simulatedStream) Synchronize() error {
	s.on.host = max(s.on.host, s.now)
	return nil
}

func (e *simulatedEvent) Since(start device.Event) (time.Duration, error) {
	return time.Duration(math.Round(1e9 * (e.at - start.(*simulatedEvent).at))), nil
}

// simulator is an executor whose kernels do nothing but take time.
type simulator struct {
	dev     *simulated
	seconds func(t *step.Task, ran int) float64
}

type simulatedKernel struct {
	*simulator
	task *step.Task
}

func (e *simulator) Device() device.Device                     { return e.dev }
func (e *simulator) Compile(t *step.Task) (step.Kernel, error) { return simulatedKernel{e, t}, nil }
func (e *simulator) Close() error                              { return nil }
func (k simulatedKernel) Scratch() int64                       { return 0 }
func (k simulatedKernel) Launch(s device.Stream, _, _ []device.Ptr, _ device.Ptr) error {
	k.dev.host += k.dev.launch
	s.(*simulatedStream).pass(k.seconds(k.task, k.dev.ran))
	k.dev.ran++
	return nil
}

// openSimulated is a device with an executor whose tasks take seconds.
func openSimulated(t *testing.T, d simulated, seconds func(t *step.Task, ran int) float64) *simulator {
	t.Helper()
	dev := testkit.Must(device.Open("host:256MiB"))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	d.Device = dev
	return &simulator{&d, seconds}
}

// measured is what Measure says of a step on a simulated device.
func measured(t *testing.T, x *step.Executable) *step.Times {
	t.Helper()
	var in []*step.Tensor
	for _, p := range x.Graph().Parameters() {
		in = append(in, testkit.Must(x.Memory().New(p.Shape()))(t))
	}
	defer func() {
		for _, v := range in {
			testkit.OK(t, v.Free())
		}
	}()
	return testkit.Must(x.Measure(context.Background(), in))(t)
}

// chainOf is a graph of operations that are no one task, each of another size.
func chainOf(t *testing.T, n int) *graph.Graph {
	m := newMaker(t)
	v := m.param(f32(4, 4))
	for i := range n {
		w := m.param(f32(4+i, 5+i))
		v = m.must(m.DotGeneral(v, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}}))
	}
	testkit.OK(t, m.SetOutputs(v))
	return m.Graph
}

// What marks take is found, and taken off; and the first runs do not count.
func TestMeasureTakesMarksOff(t *testing.T) {
	truth := func(t *step.Task) float64 {
		return 2e-6 * math.Exp2(float64(t.Outputs[0].Shape().Dims[1]%10)) // 2 µs to 1 ms
	}
	const n = 40
	e := openSimulated(t, simulated{rate: 1e9, mark: 3e-6}, func(t *step.Task, ran int) float64 {
		if ran < 2*n {
			return 5 * truth(t)
		}
		return truth(t)
	})
	x := testkit.Must(step.Compile(chainOf(t, n), e, step.Options{}))(t)
	defer x.Close()
	times, sum := measured(t, x), 0.0
	for _, task := range x.Tasks() {
		sum += truth(task)
		if got, want := times.Seconds(task), truth(task); math.Abs(got-want) > 0.01*want {
			t.Errorf("%v takes %v s, measured %v s", task, want, got)
		}
	}
	again := testkit.Must(step.Plan(x.Graph(), e, step.Options{Seconds: times.Seconds}))(t)
	if math.Abs(again.Seconds-sum) > 0.01*sum {
		t.Errorf("predicted %v s, takes %v s", again.Seconds, sum)
	}

	// They are the same in another process.
	path := filepath.Join(t.TempDir(), "times.json")
	testkit.OK(t, times.Write(path))
	read := testkit.Must(step.ReadTimes(path))(t)
	if read.Device() != e.dev.Info().Name {
		t.Errorf("the device is %q", read.Device())
	}
	for _, task := range x.Tasks() {
		if got, want := read.Seconds(task), times.Seconds(task); got != want {
			t.Errorf("%v takes %v s, read as %v s", task, want, got)
		}
	}
}

func TestReadTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "times.json")
	_, err := step.ReadTimes(path)
	testkit.WantError(t, "no file", err, fs.ErrNotExist)
	for _, text := range []string{"", "[]", `{"tasks": [{"kind": "a", "task": "Exp", "seconds": -1}]}`} {
		testkit.OK(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := step.ReadTimes(path)
		testkit.WantError(t, text, err, errs.ErrDamaged, path)
	}
}

// Where queueing takes longer than the tasks, so does the step.
func TestMeasureSlowQueue(t *testing.T) {
	const n, launch = 40, 5e-6
	e := openSimulated(t, simulated{rate: 1e9, mark: 2e-6, launch: launch}, func(*step.Task, int) float64 { return 1e-6 })
	x := testkit.Must(step.Compile(chainOf(t, n), e, step.Options{}))(t)
	defer x.Close()
	sum := 0.0
	times := measured(t, x)
	for _, task := range x.Tasks() {
		sum += times.Seconds(task)
	}
	if want := n * launch; math.Abs(sum-want) > 0.03*want {
		t.Errorf("%v s, it takes %v s", sum, want)
	}
}

// A step takes as long as its plan says, with copies in both directions, if tasks and the
// link are as they were said to be; and tasks of such a step are measured as well.
func TestPredicted(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	truth := func(t *step.Task) float64 { return 20e-6 + 1e-9*float64(t.Outputs[0].Shape().Bytes()) }
	sent := 0
	for i := range 12 {
		rate := 1e9 / math.Exp2(float64(i%4)) // of slow links, there is a queue
		// Plans count on a link that is a little slower.
		e := openSimulated(t, simulated{rate: 0.93 * rate, latency: 1e-6, mark: 2e-6}, func(t *step.Task, _ int) float64 { return truth(t) })
		m, donate := layers(t, rng, 4+rng.IntN(5))
		o := step.Options{Donate: donate, Link: rate, Latency: time.Microsecond, Seconds: truth}
		least, most := peaks(t, m.Graph, e, o)
		for _, budget := range []int64{0, most - (most-least)/4, least + (most-least)/2, least + (most-least)/4} {
			o.Budget = budget
			x, err := step.Compile(m.Graph, e, o)
			if err != nil {
				continue // a plan is not found for every budget
			}
			for _, l := range x.Plan().Lives {
				if l.Sent {
					sent++
				}
			}
			times := measured(t, x)
			for _, task := range x.Tasks() {
				if got, want := times.Seconds(task), truth(task); math.Abs(got-want) > 0.02*want {
					t.Errorf("graph %d, budget %d: %v takes %v s, measured %v s", i, budget, task, want, got)
				}
			}
			var in []*step.Tensor
			for _, p := range m.Parameters() {
				in = append(in, testkit.Must(x.Memory().New(p.Shape()))(t))
			}
			began := e.dev.now()
			for _, v := range testkit.Must(x.Run(context.Background(), in, nil))(t) {
				testkit.OK(t, v.Free())
			}
			took := e.dev.now() - began
			if want := x.Plan().Seconds; math.Abs(took-want) > 0.01*want {
				t.Errorf("graph %d, budget %d: the plan takes %v s, the step %v s\n%v", i, budget, want, took, x.Plan())
			}
			for _, v := range in {
				testkit.OK(t, v.Free())
			}
			testkit.OK(t, x.Close())
		}
	}
	if sent == 0 {
		t.Error("nothing was sent")
	}
}
