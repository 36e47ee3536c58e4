package cusparselt

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// Plan is how the library computes products of one shape. It is gone when the library is
// closed. Its methods are safe for concurrent use. Matrices are at multiples of 16, other
// memory is at multiples of 256.
type Plan struct {
	library    *Library
	gemm       blas.Gemm // without addresses
	objects    objects
	destroyers []func() error // of the objects that are there

	compressed, scratch int64 // bytes
	workspace           int64 // bytes; with the library's mu held
}

// The objects of a plan.
const (
	sparseMatrix = iota
	denseMatrix
	resultMatrix
	matmulObject
	selectionObject
	planObject
	planObjects
)

// What the library wants of matrices of 16-bit elements: addresses are multiples of so
// many bytes, and sizes and strides of so many elements.
const (
	matrixAlign    = 16
	denseMultiple  = 8
	sparseMultiple = 16
)

// minScratch is room for what [Plan.Check] finds.
const minScratch = 4

// memoryAlign is what other addresses are multiples of.
const memoryAlign = 256

// Plan finds out how to compute C = Alpha op(A) op(B) where B is 2:4 sparse; of the same
// product, the library is asked once. Addresses and workspace of g are not looked at. It
// fails with [device.ErrArgument] when g cannot be right, and with
// [device.ErrNotSupported] when the library does not do it: elements are bfloat16 or
// float16, also those of C; M is a multiple of 8, N and K are multiples of 16, and so are
// the strides of A and C, and of B; there is no batch, addend, bias or activation.
func (l *Library) Plan(g blas.Gemm) (*Plan, error) {
	p, err := l.plan(g)
	if err != nil {
		return nil, fmt.Errorf("cusparselt: %w", err)
	}
	return p, nil
}

func (l *Library) plan(g blas.Gemm) (*Plan, error) {
	g.A.Ptr, g.B.Ptr, g.C.Ptr, g.Workspace, g.WorkspaceBytes = 0, 0, 0, 0, 0
	if err := g.CheckShapes(); err != nil {
		return nil, err
	}
	if err := supported(&g); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == nil {
		return nil, device.ErrClosed
	}
	if p := l.plans[g]; p != nil {
		return p, nil
	}
	p := &Plan{library: l, gemm: g}
	var err error
	if p.objects, err = newObjects(planObjects); err != nil {
		return nil, err
	}
	err = l.native.WithContext(func() error {
		err := p.build()
		if err != nil {
			err = errors.Join(err, p.destroy())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("a product of %d x %d x %d of %v (transposed: %t, %t): %w", g.M, g.N, g.K, g.Type, g.TransA, g.TransB, err)
	}
	l.plans[g] = p
	return p, nil
}

// supported fails where the library is known not to do it.
func supported(g *blas.Gemm) error {
	lacks := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{device.ErrNotSupported}, args...)...)
	}
	a, b, c := g.Shapes()
	switch {
	case g.Type != dtype.BF16 && g.Type != dtype.F16 || g.ResultType() != g.Type:
		return lacks("elements of type %v give %v; 2:4 sparse products are of bf16 or f16, and give the same", g.Type, g.ResultType())
	case g.Count() != 1:
		return lacks("a batch of %d products", g.Batch)
	case g.Beta != 0 || g.Bias != 0 || g.Activation != blas.NoActivation:
		return lacks("2:4 sparse products have no addend, bias and activation")
	case g.M == 0 || g.M%denseMultiple != 0 || g.N == 0 || g.N%sparseMultiple != 0 || g.K%sparseMultiple != 0:
		return lacks("a 2:4 sparse product of %d x %d x %d: M must be a multiple of %d, N and K of %d", g.M, g.N, g.K, denseMultiple, sparseMultiple)
	case a.Stride%denseMultiple != 0 || c.Stride%denseMultiple != 0 || b.Stride%sparseMultiple != 0:
		return lacks("rows of A, B and C are %d, %d and %d elements apart: they must be multiples of %d, %d and %d",
			a.Stride, b.Stride, c.Stride, denseMultiple, sparseMultiple, denseMultiple)
	}
	return nil
}

// build makes the objects. The library's sparse matrix is its first: as in package
// cublaslt, matrices lie by columns, and C' = op(B)' op(A)' is computed.
func (p *Plan) build() error {
	h, o := p.library.handle.at(0), p.objects
	a, b, c := p.gemm.Shapes()
	t := uintptr(typeF16)
	if p.gemm.Type == dtype.BF16 {
		t = typeBF16
	}
	matrix := func(i int, call string, init func(at uintptr) uintptr) error {
		err := check(call, init(o.at(i)))
		if err == nil {
			p.destroyers = append(p.destroyers, func() error {
				return check("cusparseLtMatDescriptorDestroy", api.matrixDestroy.Call(o.at(i)))
			})
		}
		return err
	}
	dense := func(i int, s *blas.Stored) error {
		return matrix(i, "cusparseLtDenseDescriptorInit", func(at uintptr) uintptr {
			return api.denseInit.Call(h, at, uintptr(s.Columns), uintptr(s.Rows), uintptr(s.Stride), matrixAlign, t, orderColumn)
		})
	}
	if err := matrix(sparseMatrix, "cusparseLtStructuredDescriptorInit", func(at uintptr) uintptr {
		return api.structuredInit.Call(h, at, uintptr(b.Columns), uintptr(b.Rows), uintptr(b.Stride), matrixAlign, t, orderColumn, sparsityHalf)
	}); err != nil {
		return err
	}
	if err := dense(denseMatrix, &a); err != nil {
		return err
	}
	if err := dense(resultMatrix, &c); err != nil {
		return err
	}
	if err := check("cusparseLtMatmulDescriptorInit", api.matmulInit.Call(h, o.at(matmulObject), op(p.gemm.TransB), op(p.gemm.TransA),
		o.at(sparseMatrix), o.at(denseMatrix), o.at(resultMatrix), o.at(resultMatrix), computeF32)); err != nil {
		return err
	}
	if err := check("cusparseLtMatmulAlgSelectionInit",
		api.selectionInit.Call(h, o.at(selectionObject), o.at(matmulObject), algorithmDefault)); err != nil {
		return err
	}
	if api.selectionDestroy.Ok() {
		p.destroyers = append(p.destroyers, func() error {
			return check("cusparseLtMatmulAlgSelectionDestroy", api.selectionDestroy.Call(o.at(selectionObject)))
		})
	}
	if err := check("cusparseLtMatmulPlanInit",
		api.planInit.Call(h, o.at(planObject), o.at(matmulObject), o.at(selectionObject))); err != nil {
		return err
	}
	p.destroyers = append(p.destroyers, func() error {
		return check("cusparseLtMatmulPlanDestroy", api.planDestroy.Call(o.at(planObject)))
	})
	var compressed, scratch uintptr
	if err := check("cusparseLtSpMMACompressedSize2", api.compressedSize.Call(h, o.at(sparseMatrix),
		uintptr(unsafe.Pointer(&compressed)), uintptr(unsafe.Pointer(&scratch)))); err != nil {
		return err
	}
	p.compressed, p.scratch = int64(compressed), max(int64(scratch), minScratch)
	return p.askWorkspace()
}

// askWorkspace asks how much the plan needs as it is now.
func (p *Plan) askWorkspace() error {
	var n uintptr
	err := check("cusparseLtMatmulGetWorkspace",
		api.getWorkspace.Call(p.library.handle.at(0), p.objects.at(planObject), uintptr(unsafe.Pointer(&n))))
	p.workspace = int64(n)
	return err
}

func op(transposed bool) uintptr {
	if transposed {
		return opTranspose
	}
	return opNone
}

// destroy lets go of the objects. Queued work needs none of them.
func (p *Plan) destroy() error {
	var errs []error
	for i := range p.destroyers {
		errs = append(errs, p.destroyers[len(p.destroyers)-1-i]())
	}
	p.destroyers = nil
	return errors.Join(append(errs, p.objects.free())...)
}

// CompressedBytes is how large B is when it is compressed.
func (p *Plan) CompressedBytes() int64 { return p.compressed }

// ScratchBytes is how much memory [Plan.Compress] and [Plan.Check] need while they run.
func (p *Plan) ScratchBytes() int64 { return p.scratch }

// WorkspaceBytes is how much memory [Plan.Gemm] needs while it runs. It may be another
// after [Plan.Search].
func (p *Plan) WorkspaceBytes() int64 {
	p.library.mu.Lock()
	defer p.library.mu.Unlock()
	return p.workspace
}

// Compress queues the compression of a matrix that is 2:4 sparse and lies as the plan's B
// does. Any plan with such a B can multiply by the result.
func (p *Plan) Compress(s device.Stream, b, compressed, scratch device.Ptr) error {
	_, stored, _ := p.gemm.Shapes()
	return p.launch("compress", s, []operand{{"the compressed matrix", compressed, p.compressed, memoryAlign}, {"B", b, stored.Bytes, matrixAlign}, {"scratch memory", scratch, p.scratch, memoryAlign}},
		func(h, stream uintptr) error {
			return check("cusparseLtSpMMACompress2", api.compress.Call(h, p.objects.at(sparseMatrix), 1, op(p.gemm.TransB),
				uintptr(b), uintptr(compressed), uintptr(scratch), stream))
		})
}

// Check finds out whether a matrix that lies as the plan's B does is 2:4 sparse, and fails
// with [device.ErrArgument] if it is not. It waits for the stream.
func (p *Plan) Check(s device.Stream, b, scratch device.Ptr) error {
	_, stored, _ := p.gemm.Shapes()
	err := p.launch("check", s, []operand{{"scratch memory", scratch, p.scratch, memoryAlign}, {"B", b, stored.Bytes, matrixAlign}}, func(h, stream uintptr) error {
		return check("cusparseLtSpMMAPruneCheck2", api.pruneCheck.Call(h, p.objects.at(sparseMatrix), 1, op(p.gemm.TransB),
			uintptr(b), uintptr(scratch), stream))
	})
	if err != nil {
		return err
	}
	var found [4]byte
	if err := errors.Join(s.CopyD2H(found[:], scratch), s.Synchronize()); err != nil {
		return fmt.Errorf("cusparselt: check: %w", err)
	}
	if found != [4]byte{} {
		return fmt.Errorf("cusparselt: %w: B of %d x %d has more than two of four elements along K that are not zero", device.ErrArgument, p.gemm.K, p.gemm.N)
	}
	return nil
}

// Gemm queues the product of A and a compressed B. C overlaps nothing else.
func (p *Plan) Gemm(s device.Stream, a, compressed, c, workspace device.Ptr) error {
	return p.launch("gemm", s, p.operands(a, compressed, c, workspace, p.WorkspaceBytes()), func(h, stream uintptr) error {
		return p.matmul("cusparseLtMatmul", api.matmul, h, a, compressed, c, workspace, stream)
	})
}

// Search measures the library's algorithms with a product as that of [Plan.Gemm], and
// takes the fastest from now on, which may add up in another order. C is overwritten. It
// waits, and allocates workspace by itself. Nothing may record s meanwhile
// ([device.Capturer]).
func (p *Plan) Search(s device.Stream, a, compressed, c device.Ptr) error {
	return p.launch("search", s, p.operands(a, compressed, c, 0, 0), func(h, stream uintptr) error {
		if err := p.matmul("cusparseLtMatmulSearch", api.search, h, a, compressed, c, 0, stream); err != nil {
			return err
		}
		return p.askWorkspace()
	})
}

func (p *Plan) matmul(name string, f dl.Func, h uintptr, a, compressed, c, workspace device.Ptr, stream uintptr) error {
	var beta float32
	return check(name, f.Call(h, p.objects.at(planObject), uintptr(unsafe.Pointer(&p.gemm.Alpha)), uintptr(compressed), uintptr(a),
		uintptr(unsafe.Pointer(&beta)), uintptr(c), uintptr(c), uintptr(workspace), uintptr(unsafe.Pointer(&stream)), 1))
}

// operand is memory that a call uses.
type operand struct {
	name  string
	at    device.Ptr
	bytes int64
	align device.Ptr
}

func (p *Plan) operands(a, compressed, c, workspace device.Ptr, workspaceBytes int64) []operand {
	storedA, _, storedC := p.gemm.Shapes()
	return []operand{{"C", c, storedC.Bytes, matrixAlign}, {"A", a, storedA.Bytes, matrixAlign},
		{"the compressed matrix", compressed, p.compressed, memoryAlign}, {"workspace", workspace, workspaceBytes, memoryAlign}}
}

// launch queues something, if all memory is the device's, and nothing overlaps the first.
func (p *Plan) launch(what string, s device.Stream, list []operand, queue func(h, stream uintptr) error) error {
	l := p.library
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.checkOperands(s, list)
	if err == nil {
		err = l.native.WithStream(s, func(stream uintptr) error { return queue(l.handle.at(0), stream) })
	}
	if err != nil {
		return fmt.Errorf("cusparselt: %s: %w", what, err)
	}
	return nil
}

func (l *Library) checkOperands(s device.Stream, list []operand) error {
	if l.handle == nil {
		return device.ErrClosed
	}
	if s == nil {
		return fmt.Errorf("%w: no stream", device.ErrArgument)
	}
	for i, o := range list {
		if o.bytes == 0 {
			continue
		}
		if o.at%o.align != 0 {
			return fmt.Errorf("%w: %s is at %#x, which must be a multiple of %d", device.ErrArgument, o.name, uint64(o.at), o.align)
		}
		// A kernel that reads elsewhere may make the device unusable.
		if err := l.ranges.CheckRange(o.at, o.bytes); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if first := list[0]; i > 0 && o.at < first.at.Add(first.bytes) && first.at < o.at.Add(o.bytes) {
			return fmt.Errorf("%w: %s (%d bytes at %#x) and %s (%d bytes at %#x) overlap", device.ErrArgument,
				o.name, o.bytes, uint64(o.at), first.name, first.bytes, uint64(first.at))
		}
	}
	return nil
}
