package cuda

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

type module struct {
	dev    *Device
	handle uintptr
	gate   gate

	mu     sync.Mutex
	shared map[uintptr]int // bytes of dynamic shared memory that launches of a function may ask for
}

type kernel struct {
	module *module
	name   string
	handle uintptr
}

// ImageFormat implements [device.Launcher].
func (d *Device) ImageFormat() device.ImageFormat { return device.PTX }

// LoadModule implements [device.Launcher]. PTX is compiled for the GPU by the
// driver, which keeps the result in its cache.
func (d *Device) LoadModule(image []byte) (device.Module, error) {
	if len(image) == 0 {
		return nil, fmt.Errorf("cuda: %w: empty module", device.ErrArgument)
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	m := &module{dev: d}
	text := append(image[:len(image):len(image)], 0) // the driver reads PTX up to a zero
	switch err := check("cuModuleLoadData", api.moduleLoadData.Call(
		uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&text[0])))); {
	case is(err, resultUnsupportedPTX):
		return nil, fmt.Errorf("cuda: the driver (CUDA %s) is too old for this module: %w", d.info.DriverVersion, err)
	case err != nil:
		return nil, fmt.Errorf("cuda: load module: %w", err)
	}
	d.owned.Lock()
	d.modules[m] = struct{}{}
	d.owned.Unlock()
	return m, nil
}

func (m *module) Kernel(name string) (device.Kernel, error) {
	if err := m.dev.enter(); err != nil {
		return nil, err
	}
	defer m.dev.leave()
	if !m.gate.enter() {
		return nil, errClosed
	}
	defer m.gate.leave()
	k := &kernel{module: m, name: name}
	if err := check("cuModuleGetFunction", api.moduleGetFunction.Call(
		uintptr(unsafe.Pointer(&k.handle)), m.handle, uintptr(unsafe.Pointer(dl.CString(name))))); err != nil {
		return nil, fmt.Errorf("cuda: kernel %s: %w", name, err)
	}
	return k, nil
}

func (m *module) Close() error {
	if err := m.dev.enter(); err != nil {
		return closedWith(err)
	}
	defer m.dev.leave()
	return m.gate.close(func() error {
		m.dev.owned.Lock()
		delete(m.dev.modules, m)
		m.dev.owned.Unlock()
		return check("cuModuleUnload", api.moduleUnload.Call(m.handle))
	})
}

// launch is the parameter block of one cuLaunchKernel, which names its own
// parts by address.
type launch struct {
	extra [5]uintptr
	size  uintptr
	args  [device.MaxArgs]byte
}

var launches = sync.Pool{New: func() any { return new(launch) }}

func (k *kernel) Launch(s device.Stream, grid device.Grid, args *device.Args) error {
	if args == nil {
		args = new(device.Args) // a kernel without parameters
	}
	if err := args.Err(); err != nil {
		return fmt.Errorf("cuda: launch %s: %w", k.name, err)
	}
	cs, err := k.module.dev.enterStream(s)
	if err != nil {
		return err
	}
	defer cs.leave()
	if !k.module.gate.enter() {
		return errClosed
	}
	defer k.module.gate.leave()

	if err := k.allowShared(grid.SharedBytes); err != nil {
		return err
	}
	l := launches.Get().(*launch)
	defer launches.Put(l)
	l.size = uintptr(copy(l.args[:], args.Bytes()))
	l.extra = [5]uintptr{
		launchParamBufferPointer, uintptr(unsafe.Pointer(&l.args)),
		launchParamBufferSize, uintptr(unsafe.Pointer(&l.size)),
		launchParamEnd,
	}
	if r := api.launchKernel.Call(k.handle,
		uintptr(max(grid.BlocksX, 1)), uintptr(max(grid.BlocksY, 1)), uintptr(max(grid.BlocksZ, 1)),
		uintptr(max(grid.Threads, 1)), 1, 1,
		uintptr(grid.SharedBytes), cs.handle, 0, uintptr(unsafe.Pointer(&l.extra))); r != 0 {
		return fmt.Errorf("cuda: launch %s: %w", k.name, check("cuLaunchKernel", r))
	}
	return nil
}

// allowShared allows launches with that much dynamic shared memory. Without it the limit is
// 48 KiB, less the kernel's static shared memory.
func (k *kernel) allowShared(bytes int) error {
	if bytes == 0 {
		return nil
	}
	m := k.module
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes <= m.shared[k.handle] {
		return nil
	}
	if err := check("cuFuncSetAttribute", api.funcSetAttribute.Call(k.handle, funcMaxSharedBytes, uintptr(bytes))); err != nil {
		return fmt.Errorf("cuda: launch %s: %d bytes of shared memory: %w", k.name, bytes, err)
	}
	if m.shared == nil {
		m.shared = map[uintptr]int{}
	}
	m.shared[k.handle] = bytes
	return nil
}

var _ device.Launcher = (*Device)(nil)
