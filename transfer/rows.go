package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// rowsJob is a batch or a box on its way.
type rowsJob struct {
	dst, src Memory
	rows     rows
	path     BatchPath
	on       device.Stream
	after    device.Event
	progress func(done, total int64)
}

func (j *rowsJob) report(done int64) {
	if j.progress != nil {
		j.progress(done, j.rows.total())
	}
}

// host returns the side that is host memory, or nil.
func (j *rowsJob) host() []byte {
	if j.dst.onHost {
		return j.dst.host
	}
	return j.src.host
}

// moveRows carries out j.
func (e *Engine) moveRows(ctx context.Context, j rowsJob) error {
	d, err := directionOf(j.dst, j.src)
	if err != nil {
		return err
	}
	if j.path != BatchAuto && !slices.Contains(preferred, j.path) {
		return fmt.Errorf("transfer: %w: unknown path %q", device.ErrArgument, j.path)
	}
	if j.progress != nil {
		if err := j.rows.complete(); err != nil { // it is told of the total
			return fmt.Errorf("transfer: batch: %w", err)
		}
	}
	n := j.rows.count()
	switch {
	case n == 0:
		return e.Do(ctx, Copy{On: j.on, After: j.after, Progress: j.progress})
	case n == 1 && d != deviceToDevice:
		k := j.rows.at(0)
		c := Copy{ToHost: d == deviceToHost, On: j.on, After: j.after, Progress: j.progress}
		if c.ToHost {
			c.Host, c.Device = j.dst.host[k.Dst:k.Dst+k.Bytes], j.src.device.Add(k.Src)
		} else {
			c.Host, c.Device = j.src.host[k.Src:k.Src+k.Bytes], j.dst.device.Add(k.Dst)
		}
		return e.Do(ctx, c)
	}
	if d != deviceToDevice && !(e.pinner != nil && e.pinner.Pinned(j.host())) {
		if err := errors.Join(j.rows.complete(), j.rows.overlap()); err != nil {
			return fmt.Errorf("transfer: batch: %w", err)
		}
		if e.plain.Load() {
			return e.streams.rows(ctx, e, j, d, BatchLoop)
		}
		if err := e.await(ctx, j.on, j.after); err != nil {
			return err
		}
		err := e.packRows(ctx, j, d)
		if !errors.Is(err, device.ErrPinLimit) {
			return err
		}
		if err := e.goPlain(ctx); err != nil {
			return err
		}
		return e.streams.rows(ctx, e, j, d, BatchLoop)
	}
	path, err := e.rowsPath(j, d)
	if err != nil {
		return fmt.Errorf("transfer: %w", err)
	}
	if path != BatchKernel {
		if err := j.rows.complete(); err != nil {
			return fmt.Errorf("transfer: batch: %w", err)
		}
	}
	return e.streams.rows(ctx, e, j, d, path)
}

// reach makes an address of m that kernels of the device can use.
func (e *Engine) reach(m Memory) (device.Ptr, error) {
	if !m.onHost {
		if e.can.ranges != nil {
			return m.device, e.can.ranges.CheckRange(m.device, m.bytes)
		}
		return m.device, nil
	}
	return e.pinner.Mapped(m.host)
}

// rowsPath decides how rows of pinned memory are copied.
func (e *Engine) rowsPath(j rowsJob, d direction) (BatchPath, error) {
	can := func(p BatchPath) error {
		mapped := d == deviceToDevice || e.pinner.CanMap()
		switch p {
		case BatchLoop:
			return nil
		case BatchKernel:
			if !mapped {
				return fmt.Errorf("%w: the device cannot map host memory", device.ErrNotSupported)
			}
			_, err := e.kernels()
			return err
		case BatchDriver:
			if e.can.batch != nil && mapped {
				return nil
			}
		case BatchBox:
			if _, ok := j.rows.(*boxRows); !ok {
				return fmt.Errorf("%w: path %q is for boxes", device.ErrArgument, p)
			}
			if e.can.box != nil && mapped && e.can.box.CanCopyBox(j.box(0, 0)) {
				return nil
			}
		}
		return fmt.Errorf("%w: %s has no path %q for this copy", device.ErrNotSupported, e.dev.Info().ID, p)
	}
	if j.path != BatchAuto {
		return j.path, can(j.path)
	}
	for _, p := range e.rowsRanking(d, j.rows) {
		if can(p) == nil {
			return p, nil
		}
	}
	return BatchLoop, nil
}

// box is the rows as the driver wants them, for sides at these addresses.
func (j *rowsJob) box(dst, src device.Ptr) device.Box {
	r := j.rows.(*boxRows)
	return device.Box{
		Dst: dst.Add(r.dst), Src: src.Add(r.src), RowBytes: r.bytes, Rows: r.rows, Planes: r.planes,
		DstRowStride: r.dstRow, SrcRowStride: r.srcRow, DstPlaneStride: r.dstPlane, SrcPlaneStride: r.srcPlane,
	}
}

// kernels loads the device's kernels once.
func (e *Engine) kernels() (*kernels.Set, error) {
	e.set.Lock()
	defer e.set.Unlock()
	if e.set.loaded == nil && e.set.err == nil {
		if e.set.closed {
			return nil, errClosed
		}
		set, err := kernels.Load(e.dev)
		if errors.Is(err, device.ErrOutOfMemory) {
			return nil, err // there may be room another time
		}
		e.set.loaded, e.set.err = set, err
	}
	return e.set.loaded, e.set.err
}

func (e *Engine) closeKernels() error {
	e.set.Lock()
	defer e.set.Unlock()
	e.set.closed = true
	if e.set.loaded == nil {
		return nil
	}
	set := e.set.loaded
	e.set.loaded = nil
	e.set.err = errClosed
	return set.Close()
}

// Rows are queued in parts, so that a cancelled context stops them within
// milliseconds and one part is described while another is copied.
const (
	firstRows    = 1024 // of the first part: the sooner the device begins, the better
	partRows     = 16384
	partRowBytes = 128 << 20
	rowsInFlight = 4  // parts
	entryBytes   = 24 // of a kernels.SpanEntry
)

var _ [entryBytes]byte = [unsafe.Sizeof(kernels.SpanEntry{})]byte{} // the same size

// linkBlocks is how many thread blocks a kernel uses that copies over the
// link: enough bytes in flight to fill it, and most multiprocessors left to
// others.
const linkBlocks = 64

// rows copies j by a path.
func (p *streamPool) rows(ctx context.Context, e *Engine, j rowsJob, d direction, path BatchPath) (err error) {
	t := e.begin(d, wayOf(path), j.rows.total())
	defer func() { t.end(ctx, j.rows.total(), err) }()
	if j.on != nil {
		return p.queueRows(ctx, e, j, d, path)
	}
	return p.use(j.host(), func(s *copyStream) error {
		if j.after != nil {
			if err := s.stream.Wait(j.after); err != nil {
				return err
			}
		}
		m, err := s.moverOrLoop(e, &j, d, path)
		if err != nil {
			return err
		}
		return s.parts(ctx, &j, m)
	})
}

// queueRows queues j on its stream.
func (p *streamPool) queueRows(ctx context.Context, e *Engine, j rowsJob, d direction, path BatchPath) error {
	if j.after != nil {
		if err := j.on.Wait(j.after); err != nil {
			return err
		}
	}
	s, err := p.getParked(ctx)
	if err != nil {
		return err
	}
	// What describes the rows is taken from s, which nobody else gets before
	// the work is done.
	own := s.stream
	s.stream = j.on
	m, err := s.moverOrLoop(e, &j, d, path)
	if err == nil {
		// A context ends between two parts. After another error some of the
		// work may be queued without a mark behind it.
		if err = s.parts(ctx, &j, m); err != nil && err != ctx.Err() {
			err = errors.Join(err, s.synchronize())
		}
	}
	s.stream = own
	p.park(s)
	return err
}

// mover queues a part of a job, and returns the stream that it is on. The number
// tells the parts apart whose descriptions may be in use at once.
type mover func(number int, p rowsPart) (device.Stream, error)

// parts moves all rows, a few parts at a time.
func (s *copyStream) parts(ctx context.Context, j *rowsJob, move mover) error {
	var bytes [rowsInFlight]int64
	var done int64
	wait := func(part int) error {
		i := part % rowsInFlight
		if bytes[i] == 0 {
			return nil
		}
		done += bytes[i]
		bytes[i] = 0
		if j.on != nil { // nobody knows how long the work before it takes
			return device.Wait(ctx, s.events[i])
		}
		return s.events[i].Synchronize()
	}
	n, part, most := j.rows.count(), 0, firstRows
	for from := 0; from < n; part++ {
		if err := wait(part); err != nil {
			return err
		}
		if done > 0 && j.on == nil {
			j.report(done)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := j.rows.part(from, most, partRowBytes)
		if err != nil {
			return fmt.Errorf("transfer: batch: %w", err)
		}
		j.rows.add(p)
		bytes[part%rowsInFlight] = p.bytes
		stream, err := move(part, p)
		if err != nil {
			return err
		}
		if err := stream.Record(s.events[part%rowsInFlight]); err != nil {
			return err
		}
		from = p.to
		most = nextRows(most, n-from)
	}
	// Beside the copies: of many small blocks this takes a third of their time.
	err := j.rows.overlap()
	if err != nil {
		err = fmt.Errorf("transfer: batch: %w", err)
	}
	if j.on != nil {
		return err
	}
	for i := range rowsInFlight {
		err = errors.Join(wait(part+i), err)
	}
	if err != nil {
		return err
	}
	if j.progress != nil {
		j.progress(j.rows.total(), j.rows.total())
	}
	return nil
}

// nextRows is how many rows the part behind one of most rows has, where so many
// are left. The host describes 16 KiB in less time than a kernel copies them, so
// each part can be larger than the one before; no small one is left at the end.
func nextRows(most, left int) int {
	most = min(2*most+firstRows, partRows)
	if left <= most+most/2 {
		return partRows
	}
	return most
}

// moverOrLoop is mover; if the engine chooses the path, and there is no memory
// for it, that is a copy for each row.
func (s *copyStream) moverOrLoop(e *Engine, j *rowsJob, d direction, path BatchPath) (mover, error) {
	m, err := s.mover(e, j, d, path)
	if j.path == BatchAuto && errors.Is(err, device.ErrOutOfMemory) {
		return s.mover(e, j, d, BatchLoop) // slower, but it works
	}
	return m, err
}

// mover returns what queues rows by path.
func (s *copyStream) mover(e *Engine, j *rowsJob, d direction, path BatchPath) (mover, error) {
	switch path {
	case BatchLoop:
		return func(_ int, p rowsPart) (device.Stream, error) {
			for i := p.from; i < p.to; i++ {
				if err := s.row(j, d, j.rows.at(i)); err != nil {
					return nil, err
				}
			}
			return s.stream, nil
		}, nil
	case BatchKernel:
		return s.kernelMover(e, j, d)
	}
	dst, src, err := e.reachBoth(j)
	if err != nil {
		return nil, err
	}
	if path == BatchDriver {
		var spans []device.Span
		return func(_ int, p rowsPart) (device.Stream, error) {
			spans = spans[:0]
			for i := p.from; i < p.to; i++ {
				k := j.rows.at(i)
				spans = append(spans, device.Span{Dst: dst.Add(k.Dst), Src: src.Add(k.Src), Bytes: k.Bytes})
			}
			return s.stream, e.can.batch.CopyBatch(s.stream, spans)
		}, nil
	}
	return func(_ int, p rowsPart) (device.Stream, error) {
		if p.from > 0 {
			return s.stream, nil // the first call copied all
		}
		return s.stream, e.can.box.CopyBox(s.stream, j.box(dst, src))
	}, nil
}

// reachBoth is reach for both sides of j.
func (e *Engine) reachBoth(j *rowsJob) (dst, src device.Ptr, err error) {
	if dst, err = e.reach(j.dst); err == nil {
		src, err = e.reach(j.src)
	}
	return dst, src, err
}

// putEntry writes a kernels.SpanEntry.
func putEntry(b []byte, dst, src device.Ptr, end int64) {
	_ = b[entryBytes-1]
	binary.LittleEndian.PutUint64(b, uint64(dst))
	binary.LittleEndian.PutUint64(b[8:], uint64(src))
	binary.LittleEndian.PutUint64(b[16:], uint64(end))
}

// setEnd changes the end of an entry.
func setEnd(b []byte, end int64) { binary.LittleEndian.PutUint64(b[16:], uint64(end)) }

// row queues one copy.
func (s *copyStream) row(j *rowsJob, d direction, k Block) error {
	switch d {
	case hostToDevice:
		return s.stream.CopyH2D(j.dst.device.Add(k.Dst), j.src.host[k.Src:k.Src+k.Bytes])
	case deviceToHost:
		return s.stream.CopyD2H(j.dst.host[k.Dst:k.Dst+k.Bytes], j.src.device.Add(k.Src))
	}
	return s.stream.CopyD2D(j.dst.device.Add(k.Dst), j.src.device.Add(k.Src), k.Bytes)
}
