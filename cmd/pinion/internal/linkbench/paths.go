package linkbench

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// path is one way to move bytes.
type path struct {
	name, direction string
	bytes           int64        // moved by run
	run             func() error // the copy, waited for
	from            []byte       // host memory that run reads first, if any
	to              []byte       // host memory that run writes first, if any
	mem             device.Ptr   // device memory that it writes or reads
}

// paths lists the ways in which this machine moves n bytes.
func (b *bench) paths(ctx context.Context, n int64) ([]path, error) {
	list := []path{
		b.up(ctx, "pageable", b.pageable, n, turns),
		b.down(ctx, "pageable", b.pageable, n, turns),
	}
	if b.engine != nil {
		list = append(list, b.staged(ctx, "staged", b.engine, n)...)
	}
	if b.pinned == nil {
		return list, nil
	}
	list = append(list,
		b.up(ctx, "pinned", b.pinned.Bytes(), n, always),
		b.down(ctx, "pinned", b.pinned.Bytes(), n, always))
	if b.kernels == nil {
		return list, nil
	}
	mapped, err := b.mappedPaths(n)
	return append(list, mapped...), err
}

// up is a path of n bytes of memory to the device, of those that which chooses.
func (b *bench) up(ctx context.Context, name string, memory []byte, n int64, which func([]byte, int64) func() []byte) path {
	from, _ := regions(memory, n)
	next := which(from, n)
	return path{name: name, direction: "h2d", bytes: n, from: from[:n], mem: b.mem, run: func() error {
		src := next()
		return b.inPieces(ctx, n, timedPiece, func(at, end int64) error { return b.stream.CopyH2D(b.mem+device.Ptr(at), src[at:end]) })
	}}
}

// down is a path of n bytes from the device to memory.
func (b *bench) down(ctx context.Context, name string, memory []byte, n int64, which func([]byte, int64) func() []byte) path {
	_, to := regions(memory, n)
	next := which(to, n)
	return path{name: name, direction: "d2h", bytes: n, to: to[:n], mem: b.mem, run: func() error {
		dst := next()
		return b.inPieces(ctx, n, timedPiece, func(at, end int64) error { return b.stream.CopyD2H(dst[at:end], b.mem+device.Ptr(at)) })
	}}
}

// staged are copies of pageable memory by an engine.
func (b *bench) staged(ctx context.Context, name string, e engine, n int64) []path {
	from, to := regions(b.pageable, n)
	src, dst := turns(from, n), turns(to, n)
	return []path{
		{name: name, direction: "h2d", bytes: n, from: from[:n], mem: b.mem, run: func() error { return e.H2D(ctx, b.mem, src()) }},
		{name: name, direction: "d2h", bytes: n, to: to[:n], mem: b.mem, run: func() error { return e.D2H(ctx, dst(), b.mem) }},
	}
}

// engine is what staged needs of a [transfer.Engine].
type engine interface {
	H2D(ctx context.Context, dst device.Ptr, src []byte) error
	D2H(ctx context.Context, dst []byte, src device.Ptr) error
}

// mappedPaths are kernels that move whole blocks: a tail of n bytes that is
// not one stays where it is. Fewer bytes than a block are one block.
func (b *bench) mappedPaths(n int64) ([]path, error) {
	mapped, err := b.pinned.Mapped()
	if err != nil {
		return nil, err
	}
	from, to := regions(b.pinned.Bytes(), n)
	second := mapped // where to begins
	if half := half(b.o.Size); n <= half {
		second += device.Ptr(half)
	}
	block := min(n, blockBytes)
	blocks := n / block
	n = blocks * block
	move := kernels.Blocks{Index: b.index, N: blocks, Total: blocks, BlockBytes: block}
	toDevice, toHost := move, move
	toDevice.Dst, toDevice.Src = b.mem, mapped
	toHost.Dst, toHost.Src = second, b.mem
	return []path{
		{name: "mapped", direction: "h2d", bytes: n, from: from[:n], mem: b.mem,
			run: func() error { return errors.Join(b.kernels.Gather(b.stream, toDevice), b.stream.Synchronize()) }},
		{name: "mapped", direction: "d2h", bytes: n, to: to[:n], mem: b.mem,
			run: func() error { return errors.Join(b.kernels.Scatter(b.stream, toHost), b.stream.Synchronize()) }},
	}, nil
}

// bothWays moves half of the pinned memory up and the other half down at once.
func (b *bench) bothWays() path {
	half := half(b.o.Size)
	up, down := b.pinned.Bytes()[:half], b.pinned.Bytes()[half:][:half]
	upper := b.mem + device.Ptr(half)
	return path{name: "pinned", direction: "both", bytes: 2 * half, from: up, to: down, mem: b.mem, run: func() error {
		return errors.Join(
			b.stream.CopyH2D(upper, up), b.reverse.CopyD2H(down, b.mem),
			b.stream.Synchronize(), b.reverse.Synchronize())
	}}
}

// Pieces that take far less than a second each. Those that are timed must be
// large enough for the wait not to matter; the others may touch memory for the
// first time, which is slow.
const (
	timedPiece   = 1 << 30
	untimedPiece = 64 << 20
)

// inPieces queues n bytes piece by piece, and waits for each: between two of
// them, ctx may end it.
func (b *bench) inPieces(ctx context.Context, n, piece int64, queue func(at, end int64) error) error {
	for at := int64(0); ; at += piece {
		end := min(n, at+piece)
		if err := queue(at, end); err != nil {
			return err
		}
		if err := b.stream.Synchronize(); err != nil || end == n {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// always returns the first n bytes of memory.
func always(memory []byte, n int64) func() []byte { return func() []byte { return memory[:n] } }

// turns returns n bytes of memory at a time: by turns the first ones, which may
// lie in a near cache, and others, which hardly do. The first time it is the
// first ones.
func turns(memory []byte, n int64) func() []byte {
	at, cold := int64(0), true
	memory = memory[:max(n, min(int64(len(memory)), 256<<20))] // more than any cache
	return func() []byte {
		if cold = !cold; !cold {
			return memory[:n]
		}
		if at += n; at+n > int64(len(memory)) {
			at = 0
		}
		return memory[at:][:n]
	}
}

// check runs a path once between memory with the pattern and memory without it,
// and looks for the pattern.
func (b *bench) check(ctx context.Context, p path) error {
	switch p.direction {
	case "h2d":
		return b.checkUp(ctx, p)
	case "d2h":
		return b.checkDown(ctx, p)
	}
	return b.checkBoth(ctx, p)
}

func (b *bench) checkUp(ctx context.Context, p path) error {
	if err := errors.Join(fill(ctx, p.from), b.zero(ctx, b.mem, p.bytes)); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	return b.arrived(ctx, b.mem, p.bytes)
}

func (b *bench) checkDown(ctx context.Context, p path) error {
	if err := b.load(ctx, p.bytes); err != nil {
		return err
	}
	if err := wipe(ctx, p.to); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	return same(ctx, p.to)
}

// checkBoth checks bothWays.
func (b *bench) checkBoth(ctx context.Context, p path) error {
	n := p.bytes / 2
	upper := b.mem + device.Ptr(n)
	if err := b.load(ctx, n); err != nil {
		return err
	}
	if err := errors.Join(fill(ctx, p.from), wipe(ctx, p.to), b.zero(ctx, upper, n)); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	return errors.Join(same(ctx, p.to), b.arrived(ctx, upper, n))
}

// zero clears n bytes of device memory.
func (b *bench) zero(ctx context.Context, mem device.Ptr, n int64) error {
	return b.inPieces(ctx, n, untimedPiece, func(at, end int64) error {
		return b.stream.Memset(mem+device.Ptr(at), 0, end-at)
	})
}

// load puts n bytes of the pattern into device memory, by a plain copy.
func (b *bench) load(ctx context.Context, n int64) error {
	if err := fill(ctx, b.pageable[:n]); err != nil {
		return err
	}
	return b.inPieces(ctx, n, untimedPiece, func(at, end int64) error {
		return b.stream.CopyH2D(b.mem+device.Ptr(at), b.pageable[at:end])
	})
}

// arrived looks for n bytes of the pattern in device memory, by a plain copy.
func (b *bench) arrived(ctx context.Context, mem device.Ptr, n int64) error {
	back := b.pageable[:n]
	if err := wipe(ctx, back); err != nil {
		return err
	}
	err := b.inPieces(ctx, n, untimedPiece, func(at, end int64) error {
		return b.stream.CopyD2H(back[at:end], mem+device.Ptr(at))
	})
	if err != nil {
		return err
	}
	return same(ctx, back)
}
