package attention

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

//go:generate sh ../../kernels/ptx.sh nvcc kernels.cu
//go:generate sh ../../kernels/ptx.sh nvcc tensor.cu 8.0
var (
	//go:embed kernels.ptx
	ptx []byte
	//go:embed tensor.ptx
	tensorPTX []byte
)

var (
	widths = []int{64, 128} // elements of a head that kernels are compiled for
	types  = []dtype.DType{dtype.F16, dtype.BF16}
)

// key is a kernel: its name, and what it is compiled for.
type key struct {
	name         string
	t            dtype.DType
	width, group int
}

var storeKey = key{name: "store"}

// String is the name in the PTX.
func (k key) String() string {
	switch {
	case k.width == 0:
		return k.name
	case k.group == 0:
		return fmt.Sprintf("%s_%v_%d", k.name, k.t, k.width)
	}
	return fmt.Sprintf("%s_%v_%d_%d", k.name, k.t, k.width, k.group)
}

// kind is kernels that attend.
type kind struct {
	name     string
	groups   []int // query heads that share keys, for which there is a kernel
	stages   int   // tiles that a warp has in shared memory
	resident int   // about how many thread blocks a multiprocessor has at once, for heads of 128
}

var (
	plain  = kind{name: "attend", groups: []int{1, 4, 8}, resident: 3}
	tensor = kind{name: "tensor", groups: []int{8, 16}, stages: 3, resident: 2} // with tensor cores, that is, of compute capability 8.0
	joins  = kind{name: "combine", groups: []int{0}}                            // what puts parts together
)

// shared is the bytes of shared memory that a thread block has for tiles.
func (k kind) shared(width int) int { return k.stages * threads / 32 * tileTokens * width * 2 * 2 }

// group is how many query heads the best kernel has for n of them: as many, or the most.
func (k kind) group(n int) int {
	for _, g := range k.groups {
		if n <= g {
			return g
		}
	}
	return k.groups[len(k.groups)-1]
}

// kernels are all of a kind.
func (k kind) kernels() (list []key) {
	for _, t := range types {
		for _, w := range widths {
			for _, g := range k.groups {
				list = append(list, key{k.name, t, w, g})
			}
		}
	}
	return list
}

// Set is the kernels of one device. Its methods are safe for concurrent use.
type Set struct {
	dev     device.Device
	caller  device.Caller // where kernels are Go functions; else nil
	modules []device.Module
	kernels map[key]device.Kernel
	tensor  bool // there are those with tensor cores

	multiprocessors int  // of the device; 0 where kernels are Go functions
	little          bool // they have room for the tiles of one thread block

	mu     sync.RWMutex // held for reading while work is queued
	closed bool
}

// Load prepares the kernels of dev, which must stay open for longer than the Set. It fails with
// [device.ErrNotSupported] where dev runs neither PTX nor Go functions.
func Load(dev device.Device) (*Set, error) {
	if caller, ok := device.As[device.Caller](dev); ok {
		return &Set{dev: dev, caller: caller}, nil
	}
	l, ok := device.As[device.Launcher](dev)
	if !ok || l.ImageFormat() != device.PTX {
		return nil, fmt.Errorf("attention: %w: %s runs neither PTX nor Go functions", device.ErrNotSupported, dev.Info().ID)
	}
	info := dev.Info()
	s := &Set{dev: dev, kernels: map[key]device.Kernel{}, tensor: info.ComputeCapability[0] >= 8, multiprocessors: info.Multiprocessors}
	switch info.ComputeCapability {
	case [2]int{8, 6}, [2]int{8, 9}, [2]int{12, 0}, [2]int{12, 1}: // 100 KiB of shared memory (CUDA C++ Programming Guide, Compute Capabilities)
		s.little = true
	}
	err := s.load(l, ptx, slices.Concat(plain.kernels(), joins.kernels(), []key{storeKey}))
	if err == nil && s.tensor {
		err = s.load(l, tensorPTX, tensor.kernels())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attention: device code: %w", err), s.Close())
	}
	return s, nil
}

// atOnce is about how many thread blocks the device has at once.
func (s *Set) atOnce(k kind, width int) int {
	n := k.resident * 128 / width
	if s.little && k.stages > 0 {
		n /= 2
	}
	return s.multiprocessors * n
}

// load finds every kernel now, so that none is missing in the middle of a job.
func (s *Set) load(l device.Launcher, ptx []byte, keys []key) error {
	module, err := l.LoadModule(ptx)
	if err != nil {
		return err
	}
	s.modules = append(s.modules, module)
	for _, k := range keys {
		if s.kernels[k], err = module.Kernel(k.String()); err != nil {
			return fmt.Errorf("find %v: %w", k, err)
		}
	}
	return nil
}

// Close unloads compiled kernels; for that it waits for all queued work of the device, and returns
// its error. Later calls fail with [device.ErrClosed]; a second Close does nothing.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.modules == nil {
		s.closed = true
		return nil
	}
	s.closed = true
	err := s.dev.Synchronize()
	if errors.Is(err, device.ErrClosed) {
		return nil // the modules went with the device
	}
	for _, m := range s.modules {
		err = errors.Join(err, m.Close())
	}
	return err
}

// job is a checked call, ready to be queued in either way.
type job interface {
	launch(s *Set, stream device.Stream) error
	call(c device.Caller, stream device.Stream) error
}

// queue queues a job of n rows; none is no work.
func (s *Set) queue(stream device.Stream, n int, j job) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case stream == nil:
		return fmt.Errorf("%w: no stream", device.ErrArgument)
	case s.closed:
		return device.ErrClosed
	case n == 0:
		return nil
	case s.caller != nil:
		return j.call(s.caller, stream)
	}
	return j.launch(s, stream)
}

const threads = 128 // of a thread block that attends, as kernels.cu has it

func (p plan) launch(s *Set, stream device.Stream) error {
	var args device.Args
	l := p.l
	args.Ptr(p.Out).Ptr(p.Query.Query).Ptr(l.Pages).Ptr(p.Tables).Ptr(p.Sequence).Ptr(p.Length).Ptr(p.Scratch)
	args.Int64(l.BlockBytes).Int64(l.Keys).Int64(l.Values)
	for _, n := range []int{p.Sequences, p.TableWidth, l.Blocks, l.BlockTokens, l.Heads, p.group, p.subgroups, p.Window, p.Sinks} {
		args.Int32(int32(n))
	}
	args.Float32(p.Scale)
	grid := device.Grid{BlocksX: p.N * l.Heads * p.subgroups, BlocksY: p.parts, Threads: threads, SharedBytes: p.kind.shared(l.Width)}
	if err := s.kernels[key{p.kind.name, l.Type, l.Width, p.together}].Launch(stream, grid, &args); err != nil || p.parts == 1 {
		return err
	}
	var more device.Args
	more.Ptr(p.Out).Ptr(p.Scratch).Int32(int32(p.parts))
	return s.kernels[key{joins.name, l.Type, l.Width, 0}].Launch(stream, device.Grid{BlocksX: p.N * p.Heads, Threads: l.Width}, &more)
}

func (j stored) launch(s *Set, stream device.Stream) error {
	var args device.Args
	l, r := j.l, j.r
	units := l.Heads * l.Width / 8 // of 16 bytes, of a token's keys
	args.Ptr(j.keys).Ptr(j.values).Ptr(l.Pages).Ptr(r.Tables).Ptr(r.Sequence).Ptr(r.Length)
	args.Int64(l.BlockBytes).Int64(l.Keys).Int64(l.Values)
	for _, n := range []int{r.Sequences, r.TableWidth, l.Blocks, l.BlockTokens, units} {
		args.Int32(int32(n))
	}
	return s.kernels[storeKey].Launch(stream, device.Grid{BlocksX: r.N, Threads: threads}, &args)
}
