package cublaslt

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// workspaceBytes is what NVIDIA advises from Hopper on; others need less.
const workspaceBytes = 32 << 20

// Open makes a BLAS of dev. It fails with [device.ErrNotSupported] when dev is
// not a CUDA device or cuBLASLt is not installed.
func Open(dev device.Device) (blas.BLAS, error) {
	native, isNative := device.As[device.Native](dev)
	ranges, canCheck := device.As[device.RangeChecker](dev)
	if !isNative || !canCheck || native.API() != device.CUDA {
		return nil, fmt.Errorf("cublaslt: %w: %s is not a CUDA device", device.ErrNotSupported, dev.Info().ID)
	}
	version, err := library()
	if err != nil {
		return nil, err
	}
	m := &multiplier{dev: dev, native: native, ranges: ranges, version: version, routines: map[problem]*routine{}}
	err = native.WithContext(func() error {
		return check("cublasLtCreate", api.create.Call(uintptr(unsafe.Pointer(&m.handle))))
	})
	if err != nil {
		return nil, fmt.Errorf("cublaslt: %w", err)
	}
	return m, nil
}

type multiplier struct {
	dev     device.Device
	native  device.Native
	ranges  device.RangeChecker
	version int

	mu       sync.Mutex
	handle   uintptr // 0 when closed
	routines map[problem]*routine
}

// Library implements [blas.BLAS].
func (m *multiplier) Library() string { return "cuBLASLt " + dl.VersionText(m.version) }

// WorkspaceBytes implements [blas.BLAS].
func (m *multiplier) WorkspaceBytes() int64 { return workspaceBytes }

// Close implements [blas.BLAS].
func (m *multiplier) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handle == 0 {
		return nil
	}
	err := m.native.WithContext(func() error {
		return errors.Join(m.forget(), check("cublasLtDestroy", api.destroy.Call(m.handle)))
	})
	m.handle = 0
	return err
}

// Gemm implements [blas.BLAS].
func (m *multiplier) Gemm(s device.Stream, g blas.Gemm) error {
	if err := m.gemm(s, &g); err != nil {
		return fmt.Errorf("cublaslt: gemm: %w", err)
	}
	return nil
}

func (m *multiplier) gemm(s device.Stream, g *blas.Gemm) error {
	m.mu.Lock() // the library's routines take it, too
	defer m.mu.Unlock()
	p, err := m.checked(s, g)
	if err != nil || g.M == 0 || g.N == 0 {
		return err
	}
	return m.launch(s, g, &p, nil)
}

// checked is g as a problem, if it can be right. It is empty if there is no work.
func (m *multiplier) checked(s device.Stream, g *blas.Gemm) (p problem, err error) {
	switch err := g.Check(); {
	case m.handle == 0:
		return p, device.ErrClosed
	case err != nil:
		return p, err
	case s == nil:
		return p, fmt.Errorf("%w: no stream", device.ErrArgument)
	case g.M == 0 || g.N == 0:
		return p, nil
	}
	p = problemOf(g)
	return p, m.checkRanges(g, &p)
}

// launch queues a routine; nil is that of the problem.
func (m *multiplier) launch(s device.Stream, g *blas.Gemm, p *problem, r *routine) error {
	return m.native.WithStream(s, func(stream uintptr) (err error) {
		if r == nil {
			if r, err = m.routine(p, g.Bias); err != nil {
				return err
			}
		}
		if g.Bias != 0 {
			if err := r.setBias(g.Bias); err != nil {
				return err
			}
		}
		addend := g.C.Ptr
		if p.d.Bytes > 0 {
			addend = g.Addend.Ptr
		}
		// The sides change places: see the package's documentation.
		return check("cublasLtMatmul", api.matmul.Call(m.handle, r.desc,
			uintptr(unsafe.Pointer(&g.Alpha)), uintptr(g.B.Ptr), r.b, uintptr(g.A.Ptr), r.a,
			uintptr(unsafe.Pointer(&g.Beta)), uintptr(addend), r.addend(), uintptr(g.C.Ptr), r.c,
			uintptr(unsafe.Pointer(&r.algorithm)), uintptr(g.Workspace), uintptr(g.WorkspaceBytes), stream))
	})
}

// checkRanges looks whether all addresses are the device's: a kernel that
// reads elsewhere may make the device unusable.
func (m *multiplier) checkRanges(g *blas.Gemm, p *problem) error {
	bias := int64(0)
	if g.Bias != 0 {
		bias = g.N * int64(p.tc.Size())
	}
	for _, r := range [...]struct {
		name  string
		at    device.Ptr
		bytes int64
	}{{"A", g.A.Ptr, p.a.Bytes}, {"B", g.B.Ptr, p.b.Bytes}, {"C", g.C.Ptr, p.c.Bytes}, {"the addend", g.Addend.Ptr, p.d.Bytes},
		{"the bias", g.Bias, bias}, {"workspace", g.Workspace, g.WorkspaceBytes}} {
		if r.bytes == 0 {
			continue
		}
		if err := m.ranges.CheckRange(r.at, r.bytes); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}
