package cublaslt

import (
	"cmp"
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// problem is what the library's choice of a routine depends on.
type problem struct {
	m, n, k, batch         int64
	transA, transB         bool
	a, b, c, d             blas.Stored // d, the addend, is empty where that is c or none
	t, tc                  dtype.DType
	tf32                   bool
	epilogue               uint32
	workspaceBytes         int64
	alignA, alignB, alignC uint32
	alignD, alignBias      uint32 // that of D is C's where there is none
}

func problemOf(g *blas.Gemm) problem {
	p := problem{m: g.M, n: g.N, k: g.K, batch: g.Count(), transA: g.TransA, transB: g.TransB, t: g.Type, tc: g.ResultType(),
		tf32: g.TF32, workspaceBytes: g.WorkspaceBytes}
	p.a, p.b, p.c = g.Shapes()
	p.alignA, p.alignB, p.alignC = alignment(g.A.Ptr, &p.a, p.t), alignment(g.B.Ptr, &p.b, p.t), alignment(g.C.Ptr, &p.c, p.tc)
	p.alignD = p.alignC
	if d, ok := g.AddendShape(); ok {
		p.d, p.alignD = d, alignment(g.Addend.Ptr, &d, p.tc)
	}
	switch g.Activation {
	case blas.ReLU:
		p.epilogue = epilogueReLU
	case blas.GELU:
		p.epilogue = epilogueGELU
	}
	if g.Bias != 0 {
		p.epilogue |= epilogueBias
		p.alignBias = alignment(g.Bias, &blas.Stored{}, p.tc)
	}
	return p
}

// mostAligned is more than any routine needs: 128-bit loads and the tensor memory
// accelerator want 16 bytes. That it is no more than what kernels of a step are
// promised makes the choice of a routine, and so each bit of a result, a function
// of the shapes: wherever a plan puts the matrices, it is the same.
const mostAligned = 64

// alignment is the largest power of two, up to mostAligned, that the addresses of
// all matrices of a batch are multiples of.
func alignment(p device.Ptr, s *blas.Stored, t dtype.DType) uint32 {
	all := p | device.Ptr(s.BatchStride*int64(t.Size())) | mostAligned
	return uint32(all & -all)
}

// routine is how the library solves a problem.
type routine struct {
	desc, a, b, c, d uintptr // d is 0 where the addend is c or none
	algorithm        algorithm
	tuned            bool
}

// addend is the layout of what is added to the product.
func (r *routine) addend() uintptr { return cmp.Or(r.d, r.c) }

// setBias sets where the bias is: an attribute, unlike other addresses. Called with mu
// held.
func (r *routine) setBias(at device.Ptr) error {
	return check("cublasLtMatmulDescSetAttribute",
		api.descSet.Call(r.desc, descBiasPointer, uintptr(unsafe.Pointer(&at)), unsafe.Sizeof(at)))
}

// mostRoutines bounds what is kept for a program of ever new shapes.
const mostRoutines = 1024

// routine returns the routine for p. Called with mu held and the device's context
// current.
func (m *multiplier) routine(p *problem, bias device.Ptr) (*routine, error) {
	if r, ok := m.routines[*p]; ok {
		return r, nil
	}
	if len(m.routines) >= mostRoutines {
		if err := m.forget(); err != nil {
			return nil, err
		}
	}
	r := new(routine)
	if err := m.build(r, p, bias); err != nil {
		return nil, errors.Join(err, r.destroy())
	}
	m.routines[*p] = r
	return r, nil
}

// forget drops all routines. Launched work needs none of them.
func (m *multiplier) forget() error {
	var errs []error
	for _, r := range m.routines {
		errs = append(errs, r.destroy())
	}
	clear(m.routines)
	return errors.Join(errs...)
}

func (m *multiplier) build(r *routine, p *problem, bias device.Ptr) error {
	compute := uintptr(computeF32)
	if p.tf32 && p.t == dtype.F32 {
		compute = computeTF32
	}
	if err := check("cublasLtMatmulDescCreate", api.descCreate.Call(uintptr(unsafe.Pointer(&r.desc)), compute, typeF32)); err != nil {
		return err
	}
	// To the library, B comes first.
	for _, side := range []struct {
		attribute uintptr
		transpose bool
	}{{descTransA, p.transB}, {descTransB, p.transA}} {
		if !side.transpose {
			continue // the default
		}
		op := int32(opTranspose)
		if err := check("cublasLtMatmulDescSetAttribute",
			api.descSet.Call(r.desc, side.attribute, uintptr(unsafe.Pointer(&op)), unsafe.Sizeof(op))); err != nil {
			return err
		}
	}
	if p.epilogue != 0 {
		if err := check("cublasLtMatmulDescSetAttribute",
			api.descSet.Call(r.desc, descEpilogue, uintptr(unsafe.Pointer(&p.epilogue)), unsafe.Sizeof(p.epilogue))); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		to    *uintptr
		shape *blas.Stored
		t     dtype.DType
	}{{&r.a, &p.a, p.t}, {&r.b, &p.b, p.t}, {&r.c, &p.c, p.tc}, {&r.d, &p.d, p.tc}} {
		if l.shape.Bytes == 0 {
			continue
		}
		if err := layout(l.to, l.shape, l.t, p.batch); err != nil {
			return err
		}
	}
	list, err := m.ask(r, p, bias, 1)
	if err == nil {
		r.algorithm = list[0].algorithm
	}
	return err
}

// layout describes matrices to the library.
func layout(to *uintptr, s *blas.Stored, t dtype.DType, batch int64) error {
	if err := check("cublasLtMatrixLayoutCreate", api.layoutCreate.Call(uintptr(unsafe.Pointer(to)), typeOf(t),
		uintptr(s.Columns), uintptr(s.Rows), uintptr(s.Stride))); err != nil || batch == 1 {
		return err
	}
	count, stride := int32(batch), s.BatchStride
	return errors.Join(
		check("cublasLtMatrixLayoutSetAttribute", api.layoutSet.Call(*to, layoutBatchCount, uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))),
		check("cublasLtMatrixLayoutSetAttribute", api.layoutSet.Call(*to, layoutBatchStride, uintptr(unsafe.Pointer(&stride)), unsafe.Sizeof(stride))))
}

// typeOf is cudaDataType of a type that Check lets through.
func typeOf(t dtype.DType) uintptr {
	switch t {
	case dtype.F16:
		return typeF16
	case dtype.BF16:
		return typeBF16
	}
	return typeF32
}

// ask has the library choose: it returns up to so many algorithms, the best, as it
// thinks, first. It reads the alignment of the bias off its address.
func (m *multiplier) ask(r *routine, p *problem, bias device.Ptr, wanted int) (list []heuristicResult, err error) {
	var preference uintptr
	if err := check("cublasLtMatmulPreferenceCreate", api.preferenceCreate.Call(uintptr(unsafe.Pointer(&preference)))); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, check("cublasLtMatmulPreferenceDestroy", api.preferenceDestroy.Call(preference)))
	}()
	if p.alignBias != 0 {
		// An address of just that alignment: a better one, for one launch, must
		// not choose for all.
		if err := r.setBias(bias&^(2*device.Ptr(p.alignBias)-1) | device.Ptr(p.alignBias)); err != nil {
			return nil, err
		}
	}
	// Partial sums in the type of C would round it more than once.
	reduction := uint32(reduceComputeType)
	if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, preferReduction,
		uintptr(unsafe.Pointer(&reduction)), unsafe.Sizeof(reduction))); err != nil {
		return nil, err
	}
	workspace := uint64(p.workspaceBytes)
	if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, preferWorkspace,
		uintptr(unsafe.Pointer(&workspace)), unsafe.Sizeof(workspace))); err != nil {
		return nil, err
	}
	for attribute, align := range map[uintptr]uint32{preferAlignmentA: p.alignB, preferAlignmentB: p.alignA,
		preferAlignmentC: p.alignD, preferAlignmentD: p.alignC} {
		if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, attribute,
			uintptr(unsafe.Pointer(&align)), unsafe.Sizeof(align))); err != nil {
			return nil, err
		}
	}
	results := make([]heuristicResult, wanted)
	found := int32(0)
	err = check("cublasLtMatmulAlgoGetHeuristic", api.heuristic.Call(m.handle, r.desc, r.b, r.a, r.addend(), r.c, preference,
		uintptr(wanted), uintptr(unsafe.Pointer(&results[0])), uintptr(unsafe.Pointer(&found))))
	if err != nil && !errors.Is(err, device.ErrNotSupported) {
		return nil, err
	}
	for _, x := range results[:found] {
		if x.state == 0 && int64(x.workspaceBytes) <= p.workspaceBytes {
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the library has no routine for %d products of %d x %d x %d of %v (transposed: %t, %t; epilogue %d)",
			device.ErrNotSupported, p.batch, p.m, p.n, p.k, p.t, p.transA, p.transB, p.epilogue)
	}
	return list, nil
}

func (r *routine) destroy() error {
	var errs []error
	if r.desc != 0 {
		errs = append(errs, check("cublasLtMatmulDescDestroy", api.descDestroy.Call(r.desc)))
	}
	for _, l := range []uintptr{r.a, r.b, r.c, r.d} {
		if l != 0 {
			errs = append(errs, check("cublasLtMatrixLayoutDestroy", api.layoutDestroy.Call(l)))
		}
	}
	return errors.Join(errs...)
}
