package transfer

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/ntcopy"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer/internal/staging"
)

// packed is rows of pageable memory on their way through pinned slots: packed
// one behind the other there, so that a chunk is any range of them. On the
// device's side a chunk is one copy where its rows lie one behind the other,
// one kernel where they do not, and a copy for each row where there are no
// kernels.
type packed struct {
	engine  *Engine
	job     *rowsJob
	toHost  bool
	kernels *kernels.Set // nil: none, or the slots are not mapped
	unit    int64
	room    int64 // bytes of a slot that are data; its rest describes them
}

// packRows moves j through the copiers.
func (e *Engine) packRows(ctx context.Context, j rowsJob, d direction) (err error) {
	j.rows.index()
	p := &packed{engine: e, job: &j, toHost: d == deviceToHost, unit: j.rows.unit()}
	onDevice := j.dst
	if p.toHost {
		onDevice = j.src
	}
	for p.unit > 1 && uint64(onDevice.device)%uint64(p.unit) != 0 {
		p.unit /= 4
	}
	if e.pinner.CanMap() && j.rows.count() > 1 {
		p.kernels, _ = e.kernels()
	}
	if p.kernels != nil {
		if _, err := e.reach(onDevice); err != nil {
			return fmt.Errorf("transfer: %w", err)
		}
	}
	// Rows are described behind the data. A slot has the same room for every
	// chunk: what the most rows that a chunk could hold need.
	slot := e.options.SlotBytes
	smallest := min(j.rows.total(), slot)
	for i := range j.rows.count() {
		smallest = min(smallest, j.rows.at(i).Bytes)
	}
	p.room = (slot*smallest/(smallest+entryBytes) - 3*entryBytes) &^ 4095
	if p.kernels == nil || p.room <= 0 {
		p.kernels, p.room = nil, slot
	}
	pl := e.plan(j.rows.total(), p.toHost)
	if pl.Copiers == 0 {
		pl = e.stagedPlan(j.rows.total(), p.toHost)
	}
	pl.Most = min(pl.Most, p.room)
	t := e.begin(d, wayPacked, j.rows.total())
	defer func() { t.end(ctx, j.rows.total(), err) }()
	return e.stager.Move(ctx, p, j.rows.total(), 0, j.progress, pl)
}

// each calls fn for every piece of a row in the n packed bytes at offset, with
// the piece's place in them.
func (p *packed) each(offset, n int64, fn func(at int64, k Block) error) error {
	i, start := p.job.rows.find(offset)
	for done := int64(0); done < n; i++ {
		k := p.job.rows.at(i)
		skip := offset + done - start // of this row: earlier chunks have it
		size := min(k.Bytes-skip, n-done)
		if err := fn(done, Block{k.Dst + skip, k.Src + skip, size}); err != nil {
			return err
		}
		done += size
		start += k.Bytes
	}
	return nil
}

func (p *packed) Load(slot []byte, offset, n int64) ([]byte, error) {
	if p.toHost {
		return slot[:n], nil
	}
	return slot[:n], p.each(offset, n, func(at int64, k Block) error {
		ntcopy.Copy(slot[at:at+k.Bytes], p.job.src.host[k.Src:])
		return nil
	})
}

func (p *packed) Store(staged []byte, offset int64) error {
	if !p.toHost {
		return nil
	}
	return p.each(offset, int64(len(staged)), func(at int64, k Block) error {
		ntcopy.Copy(p.job.dst.host[k.Dst:], staged[at:at+k.Bytes])
		return nil
	})
}

func (p *packed) Queue(s device.Stream, staged []byte, offset int64) error {
	n := int64(len(staged))
	// Runs of rows that lie one behind the other on the device.
	var runs int
	var first, next device.Ptr
	_ = p.each(offset, n, func(_ int64, k Block) error {
		q := p.address(k)
		if runs == 0 {
			first = q
		}
		if q != next || runs == 0 {
			runs++
		}
		next = q.Add(k.Bytes)
		return nil
	})
	if runs == 1 {
		return p.copy(s, staged, first)
	}
	var mapped device.Ptr
	if p.kernels != nil && runs >= 4 {
		mapped, _ = p.engine.pinner.Mapped(staged) // a caller's pool may not be mapped
	}
	if mapped == 0 {
		return p.each(offset, n, func(at int64, k Block) error {
			return p.copy(s, staged[at:at+k.Bytes], p.address(k))
		})
	}
	// The list begins at a multiple of 8 behind the data.
	at := (n + 7) &^ 7
	list := staged[at:cap(staged)]
	count, units := 0, int64(0)
	_ = p.each(offset, n, func(from int64, k Block) error {
		units += k.Bytes / p.unit
		dst, src := p.address(k), mapped.Add(from)
		if p.toHost {
			dst, src = src, dst
		}
		putEntry(list[count*entryBytes:], dst, src, units)
		count++
		return nil
	})
	return p.kernels.CopySpans(s, kernels.SpanList{
		Entries: mapped.Add(at), N: int64(count), Units: units, Unit: p.unit, Blocks: linkBlocks,
	})
}

// address is where a piece lies on the device.
func (p *packed) address(k Block) device.Ptr {
	if p.toHost {
		return p.job.src.device.Add(k.Src)
	}
	return p.job.dst.device.Add(k.Dst)
}

func (p *packed) copy(s device.Stream, staged []byte, at device.Ptr) error {
	if p.toHost {
		return s.CopyD2H(staged, at)
	}
	return s.CopyH2D(at, staged)
}

var _ staging.Payload = (*packed)(nil)
