package step

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/step/graph"
)

// SessionOptions say what a session keeps between runs.
type SessionOptions struct {
	// Compile says how the graph is compiled. Donate and Block have to be nil. Results that
	// Lend names stay on the device, and are no outputs. CaptureAuto records steps of any
	// size here.
	Compile Options

	// Tensors are what stays on the device, such as weights: one for each parameter, or
	// nil for a parameter that is an input of every run. They are the caller's, may be in
	// use by several sessions unless State names them, and stay until the session is
	// closed. Default: nil, all parameters are inputs.
	Tensors []*Tensor

	// State has for each result that the next run takes as a parameter, such as a cache of
	// keys and values, which parameter that is. A result replaces what the tensor holds.
	// Default: nil, all results are outputs of every run.
	State map[int]int
}

// Session is a compiled step that is run over and over with little latency: its inputs and
// outputs have places of their own, on the device and in pinned memory, and from the second
// run on all of it is one launch, where the device can. Such a run allocates nothing. Its
// methods are safe for concurrent use; runs follow one another. Several sessions run beside
// each other.
type Session struct {
	x        *Executable
	capturer device.Capturer // nil: nothing is recorded
	graph    device.Graph    // nil: not recorded, or not yet
	failed   error           // why it is not
	closed   bool

	at          []device.Ptr // of the buffers
	block       device.Ptr   // inputs, outputs, and results that are copied to their tensors
	pool        *pinned.Pool
	host        *pinned.Buffer
	inBytes     int64
	outBytes    int64 // outputs come after inputs, on the device and on the host
	ins, outs   [][]byte
	inShapes    []graph.Shape
	outShapes   []graph.Shape
	stateCopies []stateCopy
}

// stateCopy brings a result to the tensor that it replaces.
type stateCopy struct {
	dst, src device.Ptr
	bytes    int64
}

// OpenSession compiles a graph for a session. It fails as [Compile] does, and with
// [ErrArgument] when Tensors or State do not fit the graph.
func OpenSession(g *graph.Graph, exec Executor, o SessionOptions) (*Session, error) {
	switch {
	case g == nil:
		return nil, fmt.Errorf("step: session: %w: no graph", ErrArgument)
	case o.Compile.Block != nil:
		return nil, fmt.Errorf("step: session of graph %q: %w: it keeps its addresses, and a block's may change", g.Name(), ErrArgument)
	case o.Compile.Donate != nil:
		return nil, fmt.Errorf("step: session of graph %q: %w: Donate is for State to say", g.Name(), ErrArgument)
	case o.Tensors != nil && len(o.Tensors) != len(g.Parameters()):
		return nil, fmt.Errorf("step: session of graph %q: %w: Tensors is for %d of %d parameters", g.Name(), ErrArgument, len(o.Tensors), len(g.Parameters()))
	}
	tensors := o.Tensors
	if tensors == nil {
		tensors = make([]*Tensor, len(g.Parameters()))
	}
	o.Compile.Donate = make([]bool, len(g.Parameters()))
	for result, param := range o.State {
		switch {
		case result < 0 || result >= len(g.Outputs()) || param < 0 || param >= len(g.Parameters()):
			return nil, fmt.Errorf("step: session of graph %q: %w: State has result %d as parameter %d, of %d and %d", g.Name(), ErrArgument, result, param, len(g.Outputs()), len(g.Parameters()))
		case o.Compile.Lend != nil && result < len(o.Compile.Lend) && o.Compile.Lend[result]:
			return nil, fmt.Errorf("step: session of graph %q: %w: result %d is lent, and State has it as parameter %d", g.Name(), ErrArgument, result, param)
		case tensors[param] == nil || o.Compile.Donate[param]:
			return nil, fmt.Errorf("step: session of graph %q: %w: State has result %d as parameter %d, which has no tensor, or another result", g.Name(), ErrArgument, result, param)
		case !g.Outputs()[result].Shape().Equal(g.Parameters()[param].Shape()):
			return nil, fmt.Errorf("step: session of graph %q: %w: result %d is %v, and parameter %d %v", g.Name(), ErrArgument, result, g.Outputs()[result].Shape(), param, g.Parameters()[param].Shape())
		}
		o.Compile.Donate[param] = true
	}
	x, err := Compile(g, exec, o.Compile)
	if err != nil {
		return nil, err
	}
	s := &Session{x: x}
	if err := s.open(tensors, o); err != nil {
		return nil, keepFirst(fmt.Errorf("step: session of graph %q: %w", g.Name(), err), s.Close())
	}
	return s, nil
}

// open finds places for everything that runs take and make.
func (s *Session) open(tensors []*Tensor, o SessionOptions) error {
	x := s.x
	for i, t := range tensors {
		if t == nil {
			continue
		}
		if err := x.checkTensor(i, t); err != nil {
			return err
		}
		if o.Compile.Donate[i] && (slices.Contains(tensors[:i], t) || slices.Contains(tensors[i+1:], t)) {
			return fmt.Errorf("%w: a result replaces parameter %d, whose tensor stands for another one, too", ErrArgument, i)
		}
	}
	if o.Compile.Capture != CaptureNever {
		if c, ok := device.As[device.Capturer](x.dev); ok && c.CanCapture() {
			s.capturer = c
		}
	}
	// Places in the block: inputs, outputs, and results that are copied.
	var bytes int64
	take := func(shape graph.Shape) int64 {
		at := bytes
		bytes += alignedBytes(shape)
		return at
	}
	params, results := make([]int64, len(x.graph.Parameters())), make([]int64, len(x.graph.Outputs()))
	for i, p := range x.graph.Parameters() {
		if tensors[i] == nil {
			params[i] = take(p.Shape())
		}
	}
	s.inBytes = bytes
	output := func(i int) bool {
		_, kept := o.State[i]
		return !kept && !o.Compile.lends(i)
	}
	for i, v := range x.graph.Outputs() {
		if output(i) {
			results[i] = take(v.Shape())
		}
	}
	s.outBytes = bytes - s.inBytes
	for i, v := range x.graph.Outputs() {
		_, lent := x.lent[i]
		at, inPlace := x.inPlace[i]
		param, kept := o.State[i]
		if !output(i) && !lent && !(kept && inPlace && at == param) {
			results[i] = take(v.Shape())
		}
	}
	var err error
	if bytes > 0 {
		if s.block, err = x.memory.alloc.Alloc(bytes); err != nil {
			return x.lacks(units.Bytes(bytes)+" for inputs and results", err)
		}
	}
	if n := s.inBytes + s.outBytes; n > 0 {
		if s.pool, err = pinned.NewPool(x.dev, pinned.Options{Name: "session", Budget: n + 16<<20, AllowPageable: true}); err != nil {
			return err
		}
		if s.host, err = s.pool.Alloc(background, n); err != nil {
			return fmt.Errorf("%s on the host for inputs and outputs: %w", units.Bytes(n), err)
		}
	}
	piece := func(at int64, shape graph.Shape) []byte {
		if shape.Bytes() == 0 {
			return nil
		}
		return s.host.Bytes()[at:][:shape.Bytes():shape.Bytes()]
	}
	for i, p := range x.graph.Parameters() {
		if tensors[i] == nil {
			s.ins, s.inShapes = append(s.ins, piece(params[i], p.Shape())), append(s.inShapes, p.Shape())
		}
	}
	for i, v := range x.graph.Outputs() {
		if output(i) {
			s.outs, s.outShapes = append(s.outs, piece(results[i], v.Shape())), append(s.outShapes, v.Shape())
		}
	}
	s.place(tensors, params, results, o.State)
	return nil
}

// place says where each buffer lies, and what is copied at the end of a run.
func (s *Session) place(tensors []*Tensor, params, results []int64, state map[int]int) {
	x := s.x
	param := func(i int) device.Ptr {
		if tensors[i] != nil {
			return tensors[i].Ptr()
		}
		return s.block.Add(params[i])
	}
	s.at = make([]device.Ptr, len(x.buffers))
	var home []stateCopy
	for i, b := range x.buffers {
		switch {
		case b.param >= 0:
			s.at[i] = param(b.param)
		case b.out >= 0:
			n := b.value.Shape().Bytes()
			result := s.block.Add(results[b.out])
			given, inPlace := x.inPlace[b.out]
			replaced, kept := state[b.out]
			s.at[i] = result
			if inPlace {
				s.at[i] = param(given)
			}
			if n == 0 || kept && inPlace && given == replaced {
				continue
			}
			// A result in the memory of another tensor leaves it before that is replaced.
			if inPlace {
				s.stateCopies = append(s.stateCopies, stateCopy{result, s.at[i], n})
			}
			if kept {
				home = append(home, stateCopy{param(replaced), result, n})
			}
		default:
			s.at[i] = b.fixed
		}
	}
	s.stateCopies = append(s.stateCopies, home...)
}

// Inputs are the pinned buffers of the inputs, in the order of their parameters. They may
// be written between runs, which then take nil for them.
func (s *Session) Inputs() [][]byte { return s.ins }

// Outputs are the pinned buffers of the outputs, in the order of the results, as the run
// before left them.
func (s *Session) Outputs() [][]byte { return s.outs }

// Shapes are those of the inputs and outputs.
func (s *Session) Shapes() (inputs, outputs []graph.Shape) { return s.inShapes, s.outShapes }

// Executable is the compiled step, to look at. Its own runs do not know what the session
// keeps.
func (s *Session) Executable() *Executable { return s.x }

// Recorded reports whether a run is one launch, and if not, why recording the step failed,
// or nil if that was not tried: before the first run, and where it is not wanted or the
// device cannot.
func (s *Session) Recorded() (bool, error) {
	_ = s.x.enter(background)
	defer s.x.leave()
	return s.graph != nil, s.failed
}

// Run runs the step with in as its inputs, and copies its outputs to out. They are
// little-endian elements in row-major order; nil stands for all of [Session.Inputs], or
// leaves all in [Session.Outputs]. The latency is the time from when the session was free
// for this run until out was written.
//
// ctx is asked while another run is waited for, and before this one begins, which then runs
// to its end. An error of that kind, and [ErrArgument], leave everything as it was. After
// an error of the device, the tensors of State hold nothing of use.
//
// The first run takes longer: whatever is prepared on first use is, and it is recorded.
func (s *Session) Run(ctx context.Context, in, out [][]byte) (latency time.Duration, err error) {
	if err := fits(in, s.ins, "input"); err != nil {
		return 0, s.explain(err)
	}
	if err := fits(out, s.outs, "output"); err != nil {
		return 0, s.explain(err)
	}
	if err := s.x.enter(ctx); err != nil {
		return 0, err
	}
	defer s.x.leave()
	if s.closed {
		return 0, s.explain(ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return 0, s.explain(err)
	}
	start := time.Now()
	for i, b := range in {
		copy(s.ins[i], b)
	}
	stream := s.x.streams[compute]
	if s.graph != nil {
		err = keepFirst(s.graph.Launch(stream), stream.Synchronize())
	} else {
		err = keepFirst(s.queue(), s.x.synchronize())
	}
	if err != nil {
		return 0, s.explain(err)
	}
	for i, b := range out {
		copy(b, s.outs[i])
	}
	latency = time.Since(start)
	if s.capturer != nil && s.graph == nil {
		s.record()
		if s.failed != nil && s.x.replays.always {
			return latency, s.explain(s.failed)
		}
	}
	return latency, nil
}

// record makes a graph of the step. It is tried once.
func (s *Session) record() {
	g, err := s.capturer.Capture(s.x.streams[compute], s.queue)
	if err != nil {
		s.capturer, s.failed = nil, err
		return
	}
	s.graph = g
}

// queue queues a run, with the copies of its inputs and outputs.
func (s *Session) queue() error {
	stream := s.x.streams[compute]
	if s.inBytes > 0 {
		if err := stream.CopyH2D(s.block, s.host.Bytes()[:s.inBytes]); err != nil {
			return err
		}
	}
	if err := s.x.queue(background, s.at, nil); err != nil {
		return err
	}
	for _, c := range s.stateCopies {
		if err := stream.CopyD2D(c.dst, c.src, c.bytes); err != nil {
			return err
		}
	}
	if s.outBytes > 0 {
		return stream.CopyD2H(s.host.Bytes()[s.inBytes:][:s.outBytes], s.block.Add(s.inBytes))
	}
	return nil
}

func fits(given, have [][]byte, what string) error {
	if given == nil {
		return nil
	}
	if len(given) != len(have) {
		return fmt.Errorf("%w: %d %ss instead of %d", ErrArgument, len(given), what, len(have))
	}
	for i, b := range given {
		if len(b) != len(have[i]) {
			return fmt.Errorf("%w: %s %d has %d bytes instead of %d", ErrArgument, what, i, len(b), len(have[i]))
		}
	}
	return nil
}

func (s *Session) explain(err error) error {
	return fmt.Errorf("step: session of graph %q: %w", s.x.graph.Name(), err)
}

// Close waits for a run, and frees what the session holds, which Tensors are not. A second
// Close does nothing.
func (s *Session) Close() error {
	_ = s.x.enter(background)
	s.closed = true
	var err error
	if s.graph != nil {
		err = s.graph.Close()
	}
	if s.host != nil {
		err = keepFirst(err, s.host.Free())
	}
	if s.pool != nil {
		err = keepFirst(err, s.pool.Close())
	}
	if s.block != 0 {
		err = keepFirst(err, s.x.memory.alloc.Free(s.block))
	}
	s.graph, s.host, s.pool, s.block, s.capturer = nil, nil, nil, 0, nil
	s.x.leave()
	return keepFirst(err, s.x.Close())
}
