package linkbench

import (
	"bytes"
	"context"
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
func (b *bench) prepare(ctx context.Context, report *Report) (err error) {
	b.progress(1)(0, 1, "preparing memory")
	for _, s := range []*device.Stream{&b.stream, &b.reverse} {
		if *s, err = b.dev.NewStream(); err != nil {
			return err
		}
		b.later((*s).Close)
	}
	if b.mem, err = b.dev.Alloc(b.o.Size); err != nil {
		return err
	}
	b.later(func() error { return b.dev.Free(b.mem) })
	b.pageable = make([]byte, b.o.Size) // ordinary Go memory, which is what callers have
	if err := b.preparePinned(report); err != nil {
		return err
	}
	if err := b.prepareMapped(report); err != nil {
		return err
	}
	return b.prepareEngines(ctx, report)
}

// skip notes paths that this machine does not have.
func (r *Report) skip(why error, paths ...string) {
	for _, p := range paths {
		r.Skipped = append(r.Skipped, Skipped{p, why})
	}
}

// preparePinned takes the pinned memory. Where there is none, its paths are
// skipped.
func (b *bench) preparePinned(report *Report) error {
	skip := func(why error) error {
		report.skip(why, "pinned", "mapped", "pinned, both at once")
		return nil
	}
	pool, err := b.newPool(b.o.Size)
	if err != nil {
		return skip(err)
	}
	b.later(pool.Close)
	if b.pinned, err = pool.Alloc(context.Background(), b.o.Size); err != nil {
		b.pinned = nil
		return skip(err)
	}
	b.later(func() error { return b.pinned.Free() })
	return nil
}

// newPool makes a pool of pinned memory for one buffer of n bytes.
func (b *bench) newPool(n int64) (*pinned.Pool, error) {
	n = pagemem.RoundUp(n)
	return pinned.NewPool(b.dev, pinned.Options{Budget: n, SegmentBytes: n, Flags: device.PinMapped})
}

// prepareMapped loads the kernels that move blocks of pinned memory, and the
// list of all blocks in their order.
func (b *bench) prepareMapped(report *Report) (err error) {
	if b.pinned == nil {
		return nil
	}
	skip := func(why error) error { report.skip(why, "mapped"); return nil }
	if !b.canMap() {
		return skip(device.ErrNotSupported)
	}
	set, err := kernels.Load(b.dev)
	if err != nil {
		return skip(err)
	}
	b.later(set.Close)
	blocks := b.o.Size / blockBytes
	index := make([]byte, 0, blocks*8)
	for i := range blocks {
		index = append(index, byte(i), byte(i>>8), byte(i>>16), byte(i>>24), byte(i>>32), 0, 0, 0)
	}
	if b.index, err = b.dev.Alloc(blocks * 8); err != nil {
		return err
	}
	b.later(func() error { return b.dev.Free(b.index) })
	if err := b.stream.CopyH2D(b.index, index); err != nil {
		return err
	}
	b.kernels = set
	return b.stream.Synchronize()
}

// prepareEngines makes the engines and tries each once: where nothing can be
// pinned, there is nothing to stage through.
func (b *bench) prepareEngines(ctx context.Context, report *Report) (err error) {
	try := func(path string, o transfer.Options) (*transfer.Engine, error) {
		e, err := transfer.New(b.dev, o)
		if err != nil {
			return nil, err
		}
		b.later(e.Close)
		switch err := e.H2D(ctx, b.mem, b.pageable[:MinSize]); {
		case impossible(err):
			report.skip(err, path)
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return e, nil
	}
	if _, ok := device.As[device.Pinner](b.dev); !ok {
		report.skip(device.ErrNotSupported, "staged")
	} else if b.engine, err = try("staged", transfer.Options{Copiers: b.o.Copiers, StageAbove: 1}); err != nil {
		return err
	}
	if b.o.Curves {
		b.chooser, err = try("chosen", transfer.Options{})
	}
	return err
}

// impossible reports whether err says that this machine does not pin memory, or
// no more of it.
func impossible(err error) bool {
	return errors.Is(err, device.ErrNotSupported) || errors.Is(err, device.ErrPinLimit)
}

func (b *bench) canMap() bool {
	p, ok := device.As[device.Pinner](b.dev)
	return ok && p.CanMap()
}

// regions are two parts of memory, of n bytes each: one to copy from and one to
// copy to. They share bytes only where memory is too small for both.
func regions(memory []byte, n int64) (from, to []byte) {
	if half := half(int64(len(memory))); n <= half {
		return memory[:half], memory[half : 2*half]
	}
	return memory, memory
}

// half is half of n bytes in whole pages.
func half(n int64) int64 { return n / 2 &^ 4095 }

// pattern is what copies carry, over and over: no copy leaves it by accident.
// Its length is a prime number, so that no bytes repeat at the size of a page or
// a block.
var pattern = func() []byte {
	p := make([]byte, 1<<20-3)
	rand.NewChaCha8([32]byte{7}).Read(p)
	return p
}()

// fill writes the pattern to memory.
func fill(ctx context.Context, memory []byte) error {
	return each(ctx, memory, func(part []byte) error { copy(part, pattern); return nil })
}

// wipe clears memory.
func wipe(ctx context.Context, memory []byte) error {
	return each(ctx, memory, func(part []byte) error { clear(part); return nil })
}

// same compares memory with the pattern.
func same(ctx context.Context, memory []byte) error {
	return each(ctx, memory, func(part []byte) error {
		if !bytes.Equal(part, pattern[:len(part)]) {
			return errors.New("the bytes that arrived are not those that were sent")
		}
		return nil
	})
}

// each calls do with one part of memory after the other, each as long as the
// pattern or, at the end, shorter, until ctx is done.
func each(ctx context.Context, memory []byte, do func(part []byte) error) error {
	for len(memory) > 0 {
		n := min(len(memory), len(pattern))
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := do(memory[:n]); err != nil {
			return err
		}
		memory = memory[n:]
	}
	return nil
}
