package cublaslt

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// problem is what the library's choice of a routine depends on.
type problem struct {
	m, n, k                int64
	transA, transB         bool
	a, b, c                blas.Stored
	t, tc                  dtype.DType
	tf32                   bool
	workspaceBytes         int64
	alignA, alignB, alignC uint32
}

func problemOf(g *blas.Gemm) problem {
	p := problem{m: g.M, n: g.N, k: g.K, transA: g.TransA, transB: g.TransB, t: g.Type, tc: g.ResultType(), tf32: g.TF32,
		workspaceBytes: g.WorkspaceBytes, alignA: alignment(g.A.Ptr), alignB: alignment(g.B.Ptr), alignC: alignment(g.C.Ptr)}
	p.a, p.b, p.c = g.Shapes()
	return p
}

// alignment is the largest power of two, up to 256, that p is a multiple of.
func alignment(p device.Ptr) uint32 { return uint32(min(p&-p, 256)) }

// routine is how the library solves a problem.
type routine struct {
	desc, a, b, c uintptr
	algorithm     algorithm
}

// mostRoutines bounds what is kept for a program of ever new shapes.
const mostRoutines = 1024

// routine returns the routine for p. Called with mu held and the device's
// context current.
func (m *multiplier) routine(p problem) (*routine, error) {
	if r, ok := m.routines[p]; ok {
		return r, nil
	}
	if len(m.routines) >= mostRoutines {
		if err := m.forget(); err != nil {
			return nil, err
		}
	}
	r := new(routine)
	if err := m.find(r, p); err != nil {
		return nil, errors.Join(err, r.destroy())
	}
	m.routines[p] = r
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

func (m *multiplier) find(r *routine, p problem) error {
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
	for _, l := range []struct {
		to     *uintptr
		shape  blas.Stored
		dtypes dtype.DType
	}{{&r.a, p.a, p.t}, {&r.b, p.b, p.t}, {&r.c, p.c, p.tc}} {
		t := uintptr(typeF32)
		if l.dtypes == dtype.BF16 {
			t = typeBF16
		}
		if err := check("cublasLtMatrixLayoutCreate", api.layoutCreate.Call(uintptr(unsafe.Pointer(l.to)), t,
			uintptr(l.shape.Columns), uintptr(l.shape.Rows), uintptr(l.shape.Stride))); err != nil {
			return err
		}
	}
	return m.ask(r, p)
}

// ask has the library choose.
func (m *multiplier) ask(r *routine, p problem) (err error) {
	var preference uintptr
	if err := check("cublasLtMatmulPreferenceCreate", api.preferenceCreate.Call(uintptr(unsafe.Pointer(&preference)))); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, check("cublasLtMatmulPreferenceDestroy", api.preferenceDestroy.Call(preference)))
	}()
	// Partial sums in the type of C would round it more than once.
	reduction := uint32(reduceComputeType)
	if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, preferReduction,
		uintptr(unsafe.Pointer(&reduction)), unsafe.Sizeof(reduction))); err != nil {
		return err
	}
	workspace := uint64(p.workspaceBytes)
	if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, preferWorkspace,
		uintptr(unsafe.Pointer(&workspace)), unsafe.Sizeof(workspace))); err != nil {
		return err
	}
	for attribute, align := range map[uintptr]uint32{preferAlignmentA: p.alignB, preferAlignmentB: p.alignA,
		preferAlignmentC: p.alignC, preferAlignmentD: p.alignC} {
		if err := check("cublasLtMatmulPreferenceSetAttribute", api.preferenceSet.Call(preference, attribute,
			uintptr(unsafe.Pointer(&align)), unsafe.Sizeof(align))); err != nil {
			return err
		}
	}
	result := new(heuristicResult)
	found := int32(0)
	const wanted = 1
	err = check("cublasLtMatmulAlgoGetHeuristic", api.heuristic.Call(m.handle, r.desc, r.b, r.a, r.c, r.c, preference,
		wanted, uintptr(unsafe.Pointer(result)), uintptr(unsafe.Pointer(&found))))
	if err == nil && found > 0 {
		err = check("cublasLtMatmulAlgoGetHeuristic", uintptr(result.state))
	}
	switch {
	case err != nil && !errors.Is(err, device.ErrNotSupported):
		return err
	case err != nil || found == 0:
		return fmt.Errorf("%w: the library has no routine for %d x %d x %d of %v (transposed: %t, %t)",
			device.ErrNotSupported, p.m, p.n, p.k, p.t, p.transA, p.transB)
	}
	r.algorithm = result.algorithm
	return nil
}

func (r *routine) destroy() error {
	var errs []error
	if r.desc != 0 {
		errs = append(errs, check("cublasLtMatmulDescDestroy", api.descDestroy.Call(r.desc)))
	}
	for _, l := range []uintptr{r.a, r.b, r.c} {
		if l != 0 {
			errs = append(errs, check("cublasLtMatrixLayoutDestroy", api.layoutDestroy.Call(l)))
		}
	}
	return errors.Join(errs...)
}
