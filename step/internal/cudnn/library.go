package cudnn

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// Library is cuDNN for one device. Its methods are safe for concurrent use.
type Library struct {
	native  device.Native
	ranges  device.RangeChecker
	arch    [2]int // compute capability
	version int
	most    int64 // bytes of workspace

	mu     sync.Mutex
	handle uintptr // 0 when closed
	plans  map[string]*Plan
}

// Open makes a Library for dev. It fails with [device.ErrNotSupported] when dev is not a
// CUDA device or cuDNN is not installed.
func Open(dev device.Device) (*Library, error) {
	native, isNative := device.As[device.Native](dev)
	ranges, canCheck := device.As[device.RangeChecker](dev)
	if !isNative || !canCheck || native.API() != device.CUDA {
		return nil, fmt.Errorf("cudnn: %w: %s is not a CUDA device", device.ErrNotSupported, dev.Info().ID)
	}
	version, err := library()
	if err != nil {
		return nil, err
	}
	l := &Library{native: native, ranges: ranges, arch: dev.Info().ComputeCapability, version: version, most: MostWorkspace, plans: map[string]*Plan{}}
	err = native.WithContext(func() error {
		return check("cudnnCreate", api.create.Call(uintptr(unsafe.Pointer(&l.handle))))
	})
	if err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	return l, nil
}

// Version is the library's name and version.
func (l *Library) Version() string { return "cuDNN " + dl.VersionText(l.version) }

// Problem is what the library computes: a [Convolution] or an [Attention].
type Problem interface {
	// Check fails with [device.ErrArgument] if dimensions do not fit.
	Check() error

	// what names the problem in errors.
	what() string

	// supported fails with [device.ErrNotSupported] where the library, of a version, or
	// on devices of a compute capability, is known not to do it, or not rightly.
	supported(version int, arch [2]int) error

	// graph makes the library's graph.
	graph(b *builder, handle uintptr) descriptor

	// suits says whether an engine always gives the same bits, and those that others do,
	// by its numerical notes.
	suits(notes []int32) bool

	// memory is what the graph reads and writes.
	memory(version int) memory

	// part is the problem for fewer of the batch, that many parts of which are this one;
	// nil if it cannot be divided further.
	part() (smaller Problem, parts int)
}

// memory is what a graph reads and writes.
type memory struct {
	operands []operand // that the caller has
	between  []operand // that only the graph's operations use, in workspace
	numbers  []number
}

// operand is an array in the device's memory.
type operand struct {
	id    int64 // 0: it is left out
	name  string
	bytes int64
}

// number is one that the library reads in the host's memory.
type number struct {
	id    int64
	value float32
}

// Plan is how the library computes a problem. It is gone when the library is closed.
type Plan struct {
	memory
	desc      descriptor
	what      string
	parts     int   // that run one after the other, each with its part of the operands
	workspace int64 // of the library; behind it is what operations share
}

// workspaceAlign is what workspace lies at multiples of.
const workspaceAlign = 256

func aligned(n int64) int64 { return (n + workspaceAlign - 1) &^ (workspaceAlign - 1) }

// WorkspaceBytes is how much memory the plan needs while it runs.
func (p *Plan) WorkspaceBytes() int64 {
	n := p.workspace
	for _, o := range p.between {
		n = aligned(n) + o.bytes
	}
	return n
}

// Plan finds out how to compute a problem; of the same one, it is asked once. It fails
// with [device.ErrNotSupported] where the library has no way that gives the same bits
// each time.
func (l *Library) Plan(problem Problem) (*Plan, error) {
	if err := problem.Check(); err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	if err := problem.supported(l.version, l.arch); err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	key := fmt.Sprintf("%T %+v", problem, problem)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return nil, fmt.Errorf("cudnn: %w", device.ErrClosed)
	}
	if p := l.plans[key]; p != nil {
		return p, nil
	}
	p := &Plan{what: problem.what(), parts: 1}
	for {
		err := l.native.WithContext(func() (err error) {
			p.desc, p.workspace, err = plan(l.handle, problem, l.most)
			return err
		})
		if err == nil {
			break
		}
		smaller, n := problem.part()
		if smaller == nil || !errors.Is(err, errWorkspace) {
			return nil, fmt.Errorf("cudnn: %w", err)
		}
		problem, p.parts = smaller, p.parts*n
	}
	p.memory = problem.memory(l.version)
	l.plans[key] = p
	return p, nil
}

// Run queues a plan on a stream. The operands are where they are said to be, in the order
// that the problem's type documents, at multiples of 16 bytes. The workspace has as many
// bytes as the plan needs, and lies at a multiple of 256.
func (l *Library) Run(s device.Stream, p *Plan, workspace device.Ptr, operands ...device.Ptr) error {
	if s == nil {
		return fmt.Errorf("cudnn: %w: no stream", device.ErrArgument)
	}
	if len(operands) != len(p.operands) {
		return fmt.Errorf("cudnn: %w: %d operands of a %s, which has %d", device.ErrArgument, len(operands), p.what, len(p.operands))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return fmt.Errorf("cudnn: %w", device.ErrClosed)
	}
	// A kernel that reads elsewhere may make the device unusable.
	for i, o := range p.operands {
		if err := l.inside(o.name, operands[i], o.bytes*int64(p.parts), alignment); err != nil {
			return err
		}
	}
	if err := l.inside("workspace", workspace, p.WorkspaceBytes(), workspaceAlign); err != nil {
		return err
	}
	err := l.native.WithStream(s, func(stream uintptr) error {
		if err := check("cudnnSetStream", api.setStream.Call(l.handle, stream)); err != nil {
			return err
		}
		for part := range p.parts {
			if err := l.execute(p, part, workspace, operands); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("cudnn: %s: %w", p.what, err)
	}
	return nil
}

// inside fails where an array is not in memory.
func (l *Library) inside(name string, at device.Ptr, bytes int64, multiple device.Ptr) error {
	if bytes == 0 {
		return nil
	}
	if at%multiple != 0 {
		return fmt.Errorf("cudnn: %w: the %s is not at a multiple of %d bytes", device.ErrArgument, name, multiple)
	}
	if err := l.ranges.CheckRange(at, bytes); err != nil {
		return fmt.Errorf("cudnn: %s: %w", name, err)
	}
	return nil
}

// execute queues one part of a plan.
func (l *Library) execute(p *Plan, part int, workspace device.Ptr, operands []device.Ptr) error {
	var ids []int64
	var pointers []uintptr
	add := func(id int64, at uintptr) { ids, pointers = append(ids, id), append(pointers, at) }
	for i, o := range p.operands {
		if o.id != 0 {
			add(o.id, uintptr(operands[i].Add(int64(part)*o.bytes)))
		}
	}
	offset := p.workspace
	for _, o := range p.between {
		offset = aligned(offset)
		add(o.id, uintptr(workspace.Add(offset)))
		offset += o.bytes
	}
	for i := range p.numbers {
		add(p.numbers[i].id, uintptr(unsafe.Pointer(&p.numbers[i].value)))
	}
	defer runtime.KeepAlive(p) // whose numbers are read
	var b builder
	pack := b.pack(ids, pointers, workspace)
	if b.err == nil {
		b.err = check("cudnnBackendExecute", api.execute.Call(l.handle, uintptr(p.desc), uintptr(pack)))
	}
	return b.close()
}

// Close lets go of the library's memory. Its plans do not run afterwards.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return nil
	}
	err := l.native.WithContext(func() error {
		var errs []error
		for _, p := range l.plans {
			errs = append(errs, p.desc.destroy())
		}
		return errors.Join(append(errs, check("cudnnDestroy", api.destroy.Call(l.handle)))...)
	})
	l.handle = 0
	clear(l.plans)
	return err
}
