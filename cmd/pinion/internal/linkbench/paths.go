package linkbench

import (
	"bytes"
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/kernels"
)

// path is one way of moving bytes.
type path struct {
	name, direction string
	bytes           int64 // moved by run
	run             func() error
	verify          func() error // runs once, checks the bytes
}

// paths lists the ways in which this machine can move n bytes. Each path up
// starts from a device buffer of zeros; each path down reads what a plain copy
// put there.
func (b *bench) paths(ctx context.Context, n int64) ([]path, error) {
	src, dst, back := turns(b.pageable, n), turns(b.back, n), b.back[:n]
	arrived := func() error {
		if err := b.engine.D2H(ctx, back, b.a); err != nil {
			return err
		}
		return b.same(back)
	}
	returned := func() error { return b.same(back) }
	list := []path{
		{"pageable", "h2d", n, b.waited(func(s device.Stream) error { return s.CopyH2D(b.a, src()) }), arrived},
		{"pageable", "d2h", n, b.waited(func(s device.Stream) error { return s.CopyD2H(dst(), b.a) }), returned},
	}
	if _, ok := device.As[device.Pinner](b.dev); ok {
		list = append(list,
			path{"staged", "h2d", n, func() error { return b.engine.H2D(ctx, b.a, src()) }, arrived},
			path{"staged", "d2h", n, func() error { return b.engine.D2H(ctx, dst(), b.a) }, returned})
	}
	if b.up == nil {
		return list, nil
	}
	up, down := b.up.Bytes()[:n], b.down.Bytes()[:n]
	landed := func() error { return b.same(down) }
	list = append(list,
		path{"pinned", "h2d", n, b.waited(func(s device.Stream) error { return s.CopyH2D(b.a, up) }), arrived},
		path{"pinned", "d2h", n, b.waited(func(s device.Stream) error { return s.CopyD2H(down, b.a) }), landed})
	if b.kernels == nil {
		return list, nil
	}
	mapped, err := b.mappedPaths(ctx, n)
	return append(list, mapped...), err
}

// mappedPaths are kernels that move whole blocks: a tail of n bytes that is
// not one stays where it is. Fewer bytes than a block are one block.
func (b *bench) mappedPaths(ctx context.Context, n int64) ([]path, error) {
	up, err := b.up.Mapped()
	if err != nil {
		return nil, err
	}
	down, err := b.down.Mapped()
	if err != nil {
		return nil, err
	}
	block := min(n, blockBytes)
	blocks := n / block
	n = blocks * block
	move := kernels.Blocks{Index: b.index, N: blocks, Total: blocks, BlockBytes: block}
	toDevice, toHost := move, move
	toDevice.Dst, toDevice.Src = b.a, up
	toHost.Dst, toHost.Src = down, b.a
	return []path{
		{"mapped", "h2d", n, b.waited(func(s device.Stream) error { return b.kernels.Gather(s, toDevice) }),
			func() error {
				if err := b.engine.D2H(ctx, b.back[:n], b.a); err != nil {
					return err
				}
				return b.same(b.back[:n])
			}},
		{"mapped", "d2h", n, b.waited(func(s device.Stream) error { return b.kernels.Scatter(s, toHost) }),
			func() error { return b.same(b.down.Bytes()[:n]) }},
	}, nil
}

// bothWays moves n bytes up and n down at once.
func (b *bench) bothWays(n int64) path {
	up, down := b.up.Bytes()[:n], b.down.Bytes()[:n]
	return path{"pinned", "both", 2 * n, func() error {
		return errors.Join(
			b.stream.CopyH2D(b.b, up), b.reverse.CopyD2H(down, b.a),
			b.stream.Synchronize(), b.reverse.Synchronize())
	}, func() error { return b.same(down) }}
}

// chosenPaths are copies of pageable memory by an engine that chooses.
func (b *bench) chosenPaths(ctx context.Context, n int64) []path {
	src, dst, back := turns(b.pageable, n), turns(b.back, n), b.back[:n]
	return []path{
		{"chosen", "h2d", n, func() error { return b.chooser.H2D(ctx, b.a, src()) },
			func() error {
				if err := b.engine.D2H(ctx, back, b.a); err != nil {
					return err
				}
				return b.same(back)
			}},
		{"chosen", "d2h", n, func() error { return b.chooser.D2H(ctx, dst(), b.a) },
			func() error { return b.same(back) }},
	}
}

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

// waited is a copy that is queued and waited for.
func (b *bench) waited(queue func(device.Stream) error) func() error {
	return func() error {
		if err := queue(b.stream); err != nil {
			return err
		}
		return b.stream.Synchronize()
	}
}

// same compares what arrived with the start of what was sent.
func (b *bench) same(got []byte) error {
	if !bytes.Equal(got, b.pageable[:len(got)]) {
		return errors.New("the bytes that arrived are not those that were sent")
	}
	return nil
}

// check runs a path of n bytes once with its destinations wiped, and compares.
func (b *bench) check(p path, n int64) error {
	clear(b.back[:n])
	if b.down != nil {
		clear(b.down.Bytes()[:n])
	}
	if p.direction == "h2d" {
		if err := b.stream.Memset(b.a, 0, n); err != nil {
			return err
		}
	} else if err := b.stream.CopyH2D(b.a, b.pageable[:n]); err != nil {
		return err
	}
	if err := b.stream.Synchronize(); err != nil {
		return err
	}
	if err := p.run(); err != nil {
		return err
	}
	return p.verify()
}
