package outofcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/shmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/transfer"
)

// Product is a product of matrices in host memory:
//
//	C = Alpha op(A) op(B) + Beta C
//
// where op transposes where TransA or TransB says so.
type Product struct {
	A, B           Matrix // of one type: F32 or BF16
	TransA, TransB bool

	// C takes the result and has the type of A and B. Its Bytes must overlap
	// theirs nowhere, not even in the gaps between rows. Default: the file at
	// Path.
	C Matrix

	// Path is a file that is made for C: its rows, one behind the other,
	// little-endian, and nothing else. It is there, all of it, when MatMul
	// returns without an error; otherwise what was at Path before is left as
	// it was. Beta must be 0.
	Path string

	Alpha float32 // default: 0 counts as 1
	Beta  float32 // default: 0; C is then not read

	// TF32 allows factors of type F32 to be rounded to the 10 bits of
	// TensorFloat-32, where the device is faster then.
	TF32 bool
}

// MatMul computes p. None of the matrices needs to fit into the device's
// memory: tiles of them come in, are multiplied and go out at the same time.
// The [Plan] decides which and when.
//
// It returns when C is complete, or when it failed or ctx ended: then what is
// queued is waited for, nothing touches the matrices any more, and C holds a
// mixture of old and new. It fails with [device.ErrArgument] for matrices that
// do not go together, and with [ErrBudget] or [device.ErrOutOfMemory] where the
// device has too little memory.
func (r *Runner) MatMul(ctx context.Context, p Product) (report Report, err error) {
	began := time.Now()
	report, err = r.matMul(ctx, p, began)
	report.Wall = time.Since(began)
	if err != nil && err != ctx.Err() {
		err = fmt.Errorf("outofcore: matmul: %w", err)
	}
	return report, err
}

func (r *Runner) matMul(ctx context.Context, p Product, began time.Time) (report Report, err error) {
	problem, err := p.problem()
	if err != nil {
		return report, err
	}
	if err := ctx.Err(); err != nil {
		return report, err
	}
	if p.Path != "" {
		commit, discard, err := p.create(problem)
		if err != nil {
			return report, err
		}
		defer func() {
			if err == nil {
				err = commit()
			}
			err = errors.Join(err, discard())
		}()
	}
	b, err := r.multiplier()
	if err != nil {
		return report, err
	}
	report.Library = b.Library()
	budget, err := r.budget()
	if err != nil {
		return report, err
	}
	if problem.Speed, err = r.speed(ctx, b, p.A.Type, p.TF32, budget); err != nil {
		return report, err
	}
	pinned := func(b []byte) bool { return r.pinner != nil && r.pinner.Pinned(b) }
	report.Pinned = pinned(p.A.Bytes) && pinned(p.B.Bytes) && pinned(p.C.Bytes)
	problem.H2DRate, problem.D2HRate = r.linkRate(report.Pinned, false), r.linkRate(report.Pinned, true)
	for i, m := range []*Matrix{&p.A, &p.B, &p.C} {
		if problem.RowShare[i], err = r.rowShare(ctx, m, budget); err != nil {
			return report, err
		}
	}
	problem.DeviceBytes = max(budget-b.WorkspaceBytes(), 0)
	if report.Plan, err = r.plan(problem); err != nil {
		return report, err
	}
	report.Floor = report.Plan.Problem.Floor()
	return report, r.execute(ctx, &p, b, &report, began)
}

// problem checks p and says what is to be planned.
func (p *Product) problem() (Problem, error) {
	m, k := p.A.Rows, p.A.Columns
	if p.TransA {
		m, k = k, m
	}
	n := p.B.Columns
	if p.TransB {
		n = p.B.Rows
	}
	problem := Problem{M: m, N: n, K: k, Type: p.A.Type, ReadC: p.Beta != 0, TransA: p.TransA, TransB: p.TransB}
	switch {
	case m < 1 || n < 1 || k < 1:
		return problem, fmt.Errorf("%w: %d x %d x %d", device.ErrArgument, m, n, k)
	case p.A.Type != dtype.F32 && p.A.Type != dtype.BF16:
		return problem, fmt.Errorf("%w: elements of type %v; f32 and bf16 are possible", device.ErrArgument, p.A.Type)
	case p.Path != "" && (p.C.Bytes != nil || p.Beta != 0):
		return problem, fmt.Errorf("%w: C goes to %s, so it has no memory and is not read", device.ErrArgument, p.Path)
	}
	err := p.A.check("A", p.A.Rows, p.A.Columns, p.A.Type)
	rows, columns := k, n
	if p.TransB {
		rows, columns = n, k
	}
	err = errors.Join(err, p.B.check("B", rows, columns, p.A.Type))
	if p.Path == "" {
		err = errors.Join(err, p.C.check("C", m, n, p.A.Type))
		for _, f := range []struct {
			name string
			m    Matrix
		}{{"A", p.A}, {"B", p.B}} {
			if overlap(p.C.Bytes, f.m.Bytes) {
				err = errors.Join(err, fmt.Errorf("%w: C and %s overlap in host memory", device.ErrArgument, f.name))
			}
		}
	}
	return problem, err
}

// create makes the file for C and maps it.
func (p *Product) create(problem Problem) (commit, discard func() error, err error) {
	file, err := atomicfile.Create(p.Path, 0o666)
	if err != nil {
		return nil, nil, err
	}
	n := problem.M * problem.N * int64(problem.Type.Size())
	var mapped []byte
	// Without room that is reserved, a full disk would end the process.
	err = cmp.Or(file.Truncate(n), directio.Reserve(file.File, n))
	if err == nil {
		mapped, err = shmem.Map(file.File, pagemem.RoundUp(n))
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Discard())
	}
	p.C = Matrix{Bytes: mapped[:n], Type: problem.Type, Rows: problem.M, Columns: problem.N}
	unmap := func() error {
		if mapped == nil {
			return nil
		}
		b := mapped
		mapped = nil
		return pagemem.Unmap(b)
	}
	commit = func() error { return cmp.Or(unmap(), file.CommitUnsynced()) }
	discard = func() error { return errors.Join(unmap(), file.Discard()) }
	return commit, discard, nil
}

// How many operations the host is ahead of the device.
const (
	loadsAhead  = 4
	stepsAhead  = 16
	storesAhead = 4
)

// execution is a plan that is carried out.
type execution struct {
	*Plan
	*Runner
	ctx     context.Context
	product *Product
	blas    blas.BLAS

	factors                 [2]device.Ptr // in device memory: the slots of A and of B
	sums, narrow, workspace device.Ptr
	in, compute, out        *lane
	boxes                   device.BoxCopier // nil: none
}

// execute carries out the plan of a report, and completes that.
func (r *Runner) execute(ctx context.Context, p *Product, b blas.BLAS, report *Report, began time.Time) (err error) {
	plan := report.Plan
	x := &execution{Plan: plan, Runner: r, product: p, blas: b}
	memory, free, err := r.alloc(ctx, plan.DeviceBytes()+b.WorkspaceBytes())
	if err != nil {
		return fmt.Errorf("%s for tiles: %w", units.Bytes(plan.DeviceBytes()), err)
	}
	defer func() { err = errors.Join(err, free()) }()
	x.factors = [2]device.Ptr{memory, memory.Add(plan.A.bytes())}
	x.sums = x.factors[matrixB].Add(plan.B.bytes())
	x.narrow = x.sums.Add(plan.Sums.bytes())
	x.workspace = x.narrow.Add(plan.Narrow.bytes())
	x.boxes, _ = device.As[device.BoxCopier](r.dev)
	lanes := newLanes(ctx)
	defer lanes.stop()
	x.ctx = lanes.ctx
	for _, l := range []struct {
		to    **lane
		name  string
		ahead int
	}{{&x.in, "copy in", loadsAhead}, {&x.compute, "multiply", stepsAhead}, {&x.out, "copy out", storesAhead}} {
		made, err := lanes.lane(r.dev, l.name, l.ahead)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, made.close()) }()
		*l.to = made
	}
	report.Setup = time.Since(began)
	lanes.run(x.fillIn)
	lanes.run(x.fillCompute)
	lanes.run(x.fillOut)
	err = lanes.wait(ctx)
	report.Lanes = Lanes{x.in.took, x.compute.took, x.out.took}
	report.Moved = plan.Moved
	for of := range report.Moved {
		report.Moved[of].H2DSeconds, report.Moved[of].D2HSeconds = x.in.each[of], 0
	}
	report.Moved[matrixC].D2HSeconds = x.out.each[matrixC]
	runtime.KeepAlive(p) // the driver may use the matrices to the end
	return err
}

// fillIn brings the tiles.
func (x *execution) fillIn() error {
	for _, l := range x.loads {
		behind, at := x.compute, device.Ptr(0)
		if x.behindStore(l) {
			behind = x.out
		}
		if l.tile.of == matrixC {
			at = x.result(l.slot, l.slot)
		} else {
			at = x.factor(l.tile.of, l.slot)
		}
		if l.after >= 0 {
			if err := x.in.follow(behind, l.after); err != nil {
				return err
			}
		}
		if err := x.in.push(l.tile.of, func(s device.Stream) error { return x.copy(s, l.tile, at, false) }); err != nil {
			return err
		}
	}
	return x.in.finish()
}

// factor is where a tile of A or B is.
func (x *execution) factor(of matrix, slot int) device.Ptr {
	if of == matrixB && x.B.Count > 0 {
		return x.factors[matrixB].Add(int64(slot) * x.B.Bytes)
	}
	return x.factors[matrixA].Add(int64(slot) * x.A.Bytes)
}

// result is where a tile of C is that comes in or goes out: in its own slot, or
// in the slot of its sums.
func (x *execution) result(sum, narrow int) device.Ptr {
	if x.narrows() {
		return x.narrow.Add(int64(narrow) * x.Narrow.Bytes)
	}
	return x.sums.Add(int64(sum) * x.Sums.Bytes)
}

// fillCompute multiplies them.
func (x *execution) fillCompute() error {
	arrived := 0
	for _, s := range x.steps {
		if s.loads > arrived {
			arrived = s.loads
			if err := x.compute.follow(x.in, arrived-1); err != nil {
				return err
			}
		}
		if s.after >= 0 {
			if err := x.compute.follow(x.out, s.after); err != nil {
				return err
			}
		}
		if err := x.compute.push(matrixC, func(stream device.Stream) error { return x.multiply(stream, s) }); err != nil {
			return err
		}
	}
	return x.compute.finish()
}

// fillOut takes tiles of C that are complete.
func (x *execution) fillOut() error {
	for number, s := range x.steps {
		if !s.last {
			continue
		}
		if err := x.out.follow(x.compute, number); err != nil {
			return err
		}
		err := x.out.push(matrixC, func(stream device.Stream) error {
			return x.copy(stream, tile{matrixC, s.i, s.j}, x.result(s.c, s.narrow), true)
		})
		if err != nil {
			return err
		}
	}
	return x.out.finish()
}

// window is where a tile is in host memory.
func (x *execution) window(t tile) window {
	row, column, rows, columns := x.extent(t)
	m, transposed := &x.product.C, false
	switch t.of {
	case matrixA:
		m, transposed = &x.product.A, x.product.TransA
	case matrixB:
		m, transposed = &x.product.B, x.product.TransB
	}
	if transposed {
		row, column, rows, columns = column, row, columns, rows
	}
	return m.window(row, column, rows, columns)
}

// copy copies a tile between host memory, where it has gaps between its rows,
// and device memory, where it has none.
func (x *execution) copy(s device.Stream, t tile, at device.Ptr, toHost bool) error {
	w := x.window(t)
	if w.whole() {
		return x.engine.Do(x.ctx, transfer.Copy{Host: w.bytes, Device: at, ToHost: toHost, On: s})
	}
	if done, err := x.copyBox(s, w, at, toHost); done || err != nil {
		return err
	}
	host, dev := transfer.Host(w.bytes), transfer.Device(at, w.rows*w.rowBytes)
	box := transfer.Box{Dst: dev, Src: host, RowBytes: w.rowBytes, Rows: w.rows, SrcRowStride: w.stride, On: s}
	if toHost {
		box.Dst, box.Src, box.SrcRowStride, box.DstRowStride = host, dev, 0, w.stride
	}
	return x.engine.Box(x.ctx, box)
}

// copyBox queues a window of pinned memory for the copy engine, where the
// driver can: the engine would wait for long boxes, or take a kernel, and
// kernels are for the products.
func (x *execution) copyBox(s device.Stream, w window, at device.Ptr, toHost bool) (done bool, err error) {
	if x.boxes == nil || x.pinner == nil || !x.pinner.CanMap() || !x.pinner.Pinned(w.bytes) {
		return false, nil
	}
	host, err := x.pinner.Mapped(w.bytes)
	if err != nil {
		return false, nil // pinned by somebody who did not map it: the engine copies that, too
	}
	box := device.Box{Dst: at, Src: host, RowBytes: w.rowBytes, Rows: w.rows, Planes: 1, DstRowStride: w.rowBytes, SrcRowStride: w.stride}
	if toHost {
		box.Dst, box.Src, box.DstRowStride, box.SrcRowStride = host, at, w.stride, w.rowBytes
	}
	if !x.boxes.CanCopyBox(box) {
		return false, nil
	}
	return true, x.boxes.CopyBox(s, box)
}

// multiply queues a product of tiles.
func (x *execution) multiply(s device.Stream, at step) error {
	_, _, m, k := x.extent(tile{matrixA, at.i, at.l})
	_, _, _, n := x.extent(tile{matrixB, at.l, at.j})
	c := x.sums.Add(int64(at.c) * x.Sums.Bytes)
	g := blas.Gemm{
		M: m, N: n, K: k, TransA: x.product.TransA, TransB: x.product.TransB,
		Alpha: cmp.Or(x.product.Alpha, 1), Beta: 1,
		A:    blas.Matrix{Ptr: x.factor(matrixA, at.a)},
		B:    blas.Matrix{Ptr: x.factor(matrixB, at.b)},
		C:    blas.Matrix{Ptr: c},
		Type: x.Problem.Type, TF32: x.product.TF32,
		Workspace: x.workspace, WorkspaceBytes: x.blas.WorkspaceBytes(),
	}
	if at.first {
		g.Beta = x.product.Beta
	}
	if !x.narrows() {
		return x.blas.Gemm(s, g)
	}
	g.TypeC = dtype.F32
	narrow := x.result(at.c, at.narrow)
	if at.first && g.Beta != 0 {
		if err := x.kernels.Cast(s, c, dtype.F32, narrow, dtype.BF16, m*n); err != nil {
			return err
		}
	}
	if err := x.blas.Gemm(s, g); err != nil || !at.last {
		return err
	}
	return x.kernels.Cast(s, narrow, dtype.BF16, c, dtype.F32, m*n)
}
