package cudaexec

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/auto"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/internal/nvrtc"
	"github.com/pinion-gpu/pinion/step/internal/tuning"
)

// ErrUnsupported says that there is no kernel for an operation of these types.
var ErrUnsupported = step.ErrNotSupported

//go:embed prelude.cuh
var prelude string

// options of the compiler: operations are rounded each by itself, as on the host.
var options = []string{"--fmad=false"}

// Open makes an executor for a device that runs compiled kernels. It fails with
// [device.ErrNotSupported] if the device runs none, or if there is no NVRTC.
func Open(dev device.Device) (step.Executor, error) {
	launcher, ok := device.As[device.Launcher](dev)
	if !ok || launcher.ImageFormat() != device.PTX {
		return nil, fmt.Errorf("step: %w: %s runs no compiled kernels", device.ErrNotSupported, dev.Info().ID)
	}
	if _, _, err := nvrtc.Version(); err != nil {
		return nil, err
	}
	e, err := open(dev, launcher, func(text string) ([]byte, error) {
		return nvrtc.Compile(nvrtc.Source{Name: "step.cu", Text: text, Arch: dev.Info().ComputeCapability, Options: options})
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func open(dev device.Device, launcher device.Launcher, translate func(text string) ([]byte, error)) (*executor, error) {
	choice := os.Getenv(AttentionVariable)
	attends, err := attentionsBy(choice)
	if err != nil {
		return nil, err
	}
	var notes []string
	if choice != "" {
		notes = append(notes, AttentionVariable+" is "+choice)
	}
	products, err := auto.Open(dev)
	if err != nil {
		return nil, err
	}
	e := &executor{dev: dev, launcher: launcher, blas: products, library: sync.OnceValues(func() (library, error) { return openLibrary(dev) }), attends: attends, notes: notes, arch: dev.Info().ComputeCapability, translate: translate, functions: map[string]*function{}}
	switch choice := os.Getenv(ProductsVariable); choice {
	case "":
	case "measured":
		if !e.tune() {
			e.notes = append(e.notes, fmt.Sprintf("%s is %s, and %s measures nothing", ProductsVariable, choice, products.Library()))
		}
	default:
		return nil, errors.Join(fmt.Errorf("step: %w: %s is %q, and should be measured or empty", step.ErrArgument, ProductsVariable, choice), products.Close())
	}
	return e, nil
}

// ProductsVariable names the environment variable that, if it is "measured" when an executor
// is opened, has the library's routines for each product timed when the product is compiled,
// once for each machine; else the library's first choice is taken.
const ProductsVariable = "PINION_PRODUCTS"

// executor compiles kernels of tasks. Their texts are gathered, and those of many go to
// the compiler together when the first of them is launched: it takes long for each call.
type executor struct {
	dev       device.Device
	launcher  device.Launcher
	blas      blas.BLAS
	library   func() (library, error) // opens it, once
	attends   attentions              // that go to the library
	arch      [2]int                  // compute capability
	translate func(text string) ([]byte, error)

	mu        sync.Mutex
	opened    bool                 // the library is open
	notes     []string             // why it does not compute something
	tuning    *tuning.Tuning       // nil where products are not tuned
	functions map[string]*function // by text
	pending   []*function
	modules   []device.Module
	closed    bool
}

// function is a kernel's text, and what became of it.
type function struct {
	name, text string
	library    string // behind the prelude
	kernel     device.Kernel
	err        error
}

// tune has products tuned from now on, where the library can.
func (e *executor) tune() bool {
	t, ok := e.blas.(blas.Tuner)
	if ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.tuning = tuning.New(e.dev, t)
	}
	return ok
}

// Device implements [step.Executor].
func (e *executor) Device() device.Device { return e.dev }

// Close implements [step.Executor].
func (e *executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	errs := []error{e.blas.Close()}
	if e.opened {
		l, _ := e.library()
		errs = append(errs, l.Close())
	}
	for _, m := range e.modules {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Fuse implements [step.Fuser].
func (e *executor) Fuse(g *graph.Graph) ([]*step.Task, error) { return Fuse(g) }

// Remake implements [step.Remaker].
func (e *executor) Remake(values, given []graph.Value) (*step.Task, error) {
	return remake(values, given)
}

// Compile implements [step.Executor].
func (e *executor) Compile(t *step.Task) (step.Kernel, error) {
	if u := e.vectorProducts(t); u != nil {
		return e.kernels(u)
	}
	if k, ok := e.product(t); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.tuning != nil && !e.closed {
			e.tuning.Product(k.gemm, k.workspace)
		}
		return k, nil
	}
	if k, err := e.convolution(t); k != nil || err != nil {
		return k, err
	}
	if k, err := e.libraryAttention(t); k != nil || err != nil {
		return k, err
	}
	u, err := e.attention(t)
	if u == nil && err == nil {
		u, err = compile(t)
	}
	if err != nil {
		return nil, fmt.Errorf("step: %v: %w", t.Nodes[len(t.Nodes)-1], err)
	}
	return e.kernels(u)
}

// kernels are those of a task whose texts are written.
func (e *executor) kernels(u *unit) (*kernels, error) {
	t := u.task
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("step: the executor: %w", device.ErrClosed)
	}
	k := &kernels{executor: e, unit: u}
	for _, l := range u.launches {
		c := call{function: e.function(l), grid: device.Grid{BlocksX: l.grid[0], BlocksY: l.grid[1], Threads: cmp.Or(l.threads, threads), SharedBytes: l.shared}, scratch: l.scratch > 0}
		for _, v := range l.pointers {
			if i := slices.Index(t.Inputs, v); i >= 0 {
				c.arrays = append(c.arrays, array{i, false, l.offsets[v]})
			} else if i := slices.Index(t.Outputs, v); i >= 0 {
				c.arrays = append(c.arrays, array{i, true, l.offsets[v]})
			} else {
				return nil, fmt.Errorf("step: %w: %v is neither read nor written by its task", step.ErrArgument, v)
			}
		}
		k.calls = append(k.calls, c)
		k.scratch = max(k.scratch, l.scratch)
	}
	return k, nil
}

// function finds or adds the text of a launch.
func (e *executor) function(l launch) *function {
	n := len(l.pointers)
	if l.scratch > 0 {
		n++
	}
	bounds := cmp.Or(l.threads, threads)
	head := fmt.Sprintf("(const pointers<%d> p) {\n", max(n, 1))
	sum := sha256.Sum256(fmt.Append(nil, bounds, head, l.text))
	name := "k" + hex.EncodeToString(sum[:8])
	f := e.functions[name]
	if f == nil {
		f = &function{name: name, library: l.library, text: fmt.Sprintf("extern \"C\" __global__ void __launch_bounds__(%d) %s%s%s}\n", bounds, name, head, l.text)}
		e.functions[name] = f
		e.pending = append(e.pending, f)
	}
	return f
}

// perModule is how many kernels are compiled at a time.
const perModule = 24

// build compiles what waits for it.
func (e *executor) build() {
	var all sync.WaitGroup
	var mu sync.Mutex
	for some := range slices.Chunk(e.pending, perModule) {
		all.Go(func() {
			m, err := e.module(some)
			mu.Lock()
			defer mu.Unlock()
			if m != nil {
				e.modules = append(e.modules, m)
			}
			if err != nil {
				for _, f := range some {
					f.err = err
				}
			}
		})
	}
	all.Wait()
	e.pending = nil
}

func (e *executor) module(some []*function) (device.Module, error) {
	var text strings.Builder
	text.WriteString(prelude)
	var libraries []string
	for _, f := range some {
		if f.library != "" && !slices.Contains(libraries, f.library) {
			libraries = append(libraries, f.library)
			text.WriteString("\n" + f.library)
		}
	}
	for _, f := range some {
		text.WriteString("\n" + f.text)
	}
	image, err := e.translate(text.String())
	if err != nil {
		return nil, err
	}
	m, err := e.launcher.LoadModule(image)
	if err != nil {
		return nil, err
	}
	for _, f := range some {
		if f.kernel, err = m.Kernel(f.name); err != nil {
			return m, err
		}
	}
	return m, nil
}

// array is one of a task's, by its number.
type array struct {
	number int
	output bool
	offset int64 // in bytes
}

// call is a launch of a compiled kernel.
type call struct {
	function *function
	grid     device.Grid
	arrays   []array
	scratch  bool
}

// kernels implements [step.Kernel] by generated kernels.
type kernels struct {
	executor *executor
	unit     *unit
	calls    []call
	scratch  int64
}

// Scratch implements [step.Kernel].
func (k *kernels) Scratch() int64 { return k.scratch }

// CanAlias implements [step.Aliaser]: each thread has read an element, and nobody else
// does, when it writes the one in its place.
func (k *kernels) CanAlias(output, input int) bool {
	t := k.unit.task
	if len(k.unit.launches) != 1 || k.unit.launches[0].apart == nil {
		return false
	}
	in, out := t.Inputs[input], t.Outputs[output]
	return !k.unit.launches[0].apart[in] && in.Shape().Bytes() == out.Shape().Bytes() && in.Shape().Size() == out.Shape().Size()
}

// Launch implements [step.Kernel].
func (k *kernels) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	for _, c := range k.calls {
		kernel, err := k.executor.ready(c.function)
		if err != nil {
			return fmt.Errorf("step: %s: %w", k.unit.name(), err)
		}
		var args device.Args
		for _, a := range c.arrays {
			if a.output {
				args.Ptr(outputs[a.number].Add(a.offset))
			} else {
				args.Ptr(inputs[a.number].Add(a.offset))
			}
		}
		if c.scratch {
			args.Ptr(scratch)
		}
		if len(args.Bytes()) == 0 {
			args.Ptr(0)
		}
		if err := kernel.Launch(s, c.grid, &args); err != nil {
			return fmt.Errorf("step: %s: %w", k.unit.name(), err)
		}
	}
	return nil
}

func (e *executor) ready(f *function) (device.Kernel, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, device.ErrClosed
	}
	if f.kernel == nil && f.err == nil {
		e.build()
	}
	return f.kernel, f.err
}
