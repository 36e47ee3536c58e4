package managedbench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
)

// prepare takes all memory.
func (b *bench) prepare() (err error) {
	n := b.o.Size
	if b.kernels, err = kernels.Load(b.dev); err != nil {
		return err
	}
	b.later(b.kernels.Close)
	if b.stream, err = b.dev.NewStream(); err != nil {
		return err
	}
	b.later(b.stream.Close)
	for _, p := range []*device.Ptr{&b.mem, &b.sink, &b.index} {
		bytes := n
		if p == &b.index {
			bytes = n / blockBytes * 8
		}
		if *p, err = b.dev.Alloc(bytes); err != nil {
			return err
		}
		b.later(func() error { return b.dev.Free(*p) })
	}
	if b.managed, b.view, err = b.manager.AllocManaged(n, device.ManagedOptions{}); err != nil {
		return err
	}
	b.later(func() error { return b.dev.Free(b.managed) })
	b.source, b.back = make([]byte, n), make([]byte, n) // ordinary Go memory, which is what callers have
	rand.NewChaCha8([32]byte{9}).Read(b.source)

	var index []byte
	for i := range n / blockBytes {
		index = binary.LittleEndian.AppendUint64(index, uint64(i))
	}
	if err := errors.Join(b.stream.CopyH2D(b.index, index), b.stream.CopyH2D(b.mem, b.source), b.stream.Synchronize()); err != nil {
		return err
	}
	b.noPinned = b.preparePinned()
	b.noEngine = b.prepareEngine()
	for _, err := range []error{b.noPinned, b.noEngine} {
		if err != nil && !impossible(err) {
			return err
		}
	}
	return nil
}

func (b *bench) preparePinned() error {
	n := pagemem.RoundUp(b.o.Size)
	pool, err := pinned.NewPool(b.dev, pinned.Options{Budget: n, SegmentBytes: n})
	if err != nil {
		return err
	}
	b.later(pool.Close)
	buffer, err := pool.Alloc(b.ctx, b.o.Size)
	if err != nil {
		return err
	}
	b.later(func() error { return buffer.Free() })
	b.pinned = buffer
	return nil
}

// prepareEngine makes an engine and tries it: where nothing can be pinned, there
// is nothing to stage through.
func (b *bench) prepareEngine() error {
	if _, ok := device.As[device.Pinner](b.dev); !ok {
		return device.ErrNotSupported
	}
	e, err := transfer.New(b.dev, transfer.Options{StageAbove: 1})
	if err != nil {
		return err
	}
	b.later(e.Close)
	if err := e.H2D(b.ctx, b.mem, b.source[:MinSize]); err != nil {
		return err
	}
	b.engine = e
	return nil
}

// way is one way for n bytes.
type way struct {
	name, direction string
	before          func() error // not timed: the data is where the way begins
	run             func() error
	after           func() error // not timed; may be nil
	host            []byte       // to the host: where the data arrives
}

// ways lists all of them.
func (b *bench) ways(n int64) []way {
	view, source, back := b.view[:n], b.source[:n], b.back[:n]
	read := func(src device.Ptr) error { return b.move(b.sink, src, n) }
	up := func(name string, run func() error) way {
		return way{name: name, direction: "h2d", before: func() error { return b.hostWrites(view, source) }, run: run}
	}
	down := func(name string, host []byte, run func() error) way {
		return way{name: name, direction: "d2h", before: func() error { return b.deviceWrites(n) }, run: run, host: host}
	}
	// Copies begin with data that is already on the side that they copy from.
	ready := func(w way) way { w.before = func() error { return nil }; return w }

	inPlace := up(InPlace, func() error { return read(b.managed) })
	inPlace.before = func() error {
		if err := b.migrates(); err != nil {
			return err
		}
		return errors.Join(b.hostWrites(view, source), b.manager.Advise(b.managed, n, device.Advice{Preferred: device.OnHost, DeviceReads: true}))
	}
	inPlace.after = func() error { return b.manager.Advise(b.managed, n, device.Advice{}) }
	prefetch := func(to device.Place) error {
		if err := b.migrates(); err != nil {
			return err
		}
		return b.manager.Prefetch(b.stream, b.managed, n, to)
	}

	return []way{
		up(OnDemand, func() error { return read(b.managed) }),
		up(Prefetched, func() error { return errors.Join(prefetch(device.OnDevice), read(b.managed)) }),
		inPlace,
		ready(up(Pinned, func() error {
			if b.noPinned != nil {
				return b.noPinned
			}
			return errors.Join(b.stream.CopyH2D(b.mem, b.pinned.Bytes()[:n]), read(b.mem))
		})),
		ready(up(Staged, func() error {
			if b.noEngine != nil {
				return b.noEngine
			}
			return errors.Join(b.engine.H2D(b.ctx, b.mem, source), read(b.mem))
		})),
		ready(up(Pageable, func() error { return errors.Join(b.stream.CopyH2D(b.mem, source), read(b.mem)) })),

		down(OnDemand, view, func() error { b.touch(view); return nil }),
		down(Prefetched, view, func() error {
			err := errors.Join(prefetch(device.OnHost), b.stream.Synchronize())
			b.touch(view)
			return err
		}),
		ready(down(Pinned, nil, func() error {
			if b.noPinned != nil {
				return b.noPinned
			}
			host := b.pinned.Bytes()[:n]
			err := errors.Join(b.stream.CopyD2H(host, b.mem), b.stream.Synchronize())
			b.touch(host)
			return err
		})),
		ready(down(Staged, back, func() error {
			if b.noEngine != nil {
				return b.noEngine
			}
			err := b.engine.D2H(b.ctx, back, b.mem)
			b.touch(back)
			return err
		})),
		ready(down(Pageable, back, func() error {
			err := errors.Join(b.stream.CopyD2H(back, b.mem), b.stream.Synchronize())
			b.touch(back)
			return err
		})),
	}
}

// migrates fails where there is nothing to prefetch or advise.
func (b *bench) migrates() error {
	switch m := b.manager.Migration(); m {
	case device.PageMigration:
		return nil
	case device.NoMigration:
		return fmt.Errorf("%w: host and device share their memory, so nothing migrates", device.ErrNotSupported)
	default:
		return fmt.Errorf("%w: its managed memory migrates as a whole", device.ErrNotSupported)
	}
}

// hostWrites has the host write the data to managed memory, all of which is then
// on the host.
func (b *bench) hostWrites(view, data []byte) error {
	if b.manager.Migration() == device.PageMigration {
		if err := b.manager.Prefetch(b.stream, b.managed, int64(len(view)), device.OnHost); err != nil {
			return err
		}
	}
	err := b.stream.Synchronize()
	copy(view, data)
	return err
}

// deviceWrites has a kernel write the data to managed memory, all of which is
// then on the device.
func (b *bench) deviceWrites(n int64) error {
	if b.manager.Migration() == device.PageMigration {
		if err := b.manager.Prefetch(b.stream, b.managed, n, device.OnDevice); err != nil {
			return err
		}
	}
	return b.move(b.managed, b.mem, n)
}

// move has a kernel copy n bytes, and waits for it.
func (b *bench) move(dst, src device.Ptr, n int64) error {
	return errors.Join(b.kernels.Gather(b.stream, kernels.Blocks{
		Dst: dst, Src: src, Index: b.index, N: n / blockBytes, Total: n / blockBytes, BlockBytes: blockBytes,
	}), b.stream.Synchronize())
}

// touch reads a byte of each page.
func (b *bench) touch(memory []byte) {
	for at := 0; at < len(memory); at += pageBytes {
		b.seen ^= memory[at]
	}
}

// check runs a way once between memory with the data and memory without it.
func (b *bench) check(w way, n int64) error {
	if w.direction == "h2d" {
		if b.pinned != nil {
			copy(b.pinned.Bytes(), b.source)
		}
		if err := errors.Join(b.stream.Memset(b.sink, 0, n), b.stream.Memset(b.mem, 0, n), b.stream.Synchronize()); err != nil {
			return err
		}
		_, err := b.time(w)
		if err == nil {
			err = errors.Join(b.stream.CopyD2H(b.back[:n], b.sink), b.stream.Synchronize())
		}
		if err == nil && !bytes.Equal(b.back[:n], b.source[:n]) {
			err = errors.New("the kernel did not read what the host wrote")
		}
		// The ways to the host begin with this.
		return errors.Join(err, b.stream.CopyH2D(b.mem, b.source[:n]), b.stream.Synchronize())
	}
	host := w.host
	if host == nil && b.pinned != nil {
		host = b.pinned.Bytes()[:n]
	}
	clear(host)
	if _, err := b.time(w); err != nil {
		return err
	}
	if !bytes.Equal(host, b.source[:n]) {
		return errors.New("the host did not see what the device wrote")
	}
	return nil
}
