package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// A small copy beside a large one, again and again, on engines with hardly any
// copiers: all of them end, with cancellations and a Close at random points.
func TestStagerStress(t *testing.T) {
	for _, o := range []transfer.Options{
		{Copiers: 1, Slots: 1, SlotBytes: 8 << 10, StageAbove: 1},
		{Copiers: 2, Slots: 1, SlotBytes: 8 << 10, StageAbove: 1},
		{Copiers: 1, Slots: 3, SlotBytes: 4 << 10, StageAbove: 5000},
		{Copiers: 3, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%d copiers, %d slots, seed %d", o.Copiers, o.Slots, seed), func(t *testing.T) {
				stress(t, o, seed)
			})
		}
	}
}

func stress(t *testing.T, o transfer.Options, seed uint64) {
	const workers, region, rounds = 6, 100_000, 40
	f := open(t)
	dev := f.Full()
	e, err := transfer.New(dev, o)
	f.OK(err)
	broken := errors.New("broken on purpose")
	var copies atomic.Uint64
	f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
		if copies.Add(1)%997 == 0 {
			return broken
		}
		return nil
	})
	random := rand.New(rand.NewPCG(seed, 99))
	closeAfter := 1 + random.IntN(2*workers*rounds) // or not at all
	var operations atomic.Int64
	closing := sync.OnceValue(e.Close)
	var all []<-chan error
	for i := range int64(workers) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		p, q := f.Alloc(region), f.Alloc(region)
		f.Memset(p, 0, region)
		f.Memset(q, 0, region)
		w := &stressed{Rand: r, engine: e, a: p, b: q, wantA: make([]byte, region), wantB: make([]byte, region)}
		all = append(all, async(func() error {
			for range rounds {
				if operations.Add(1) == int64(closeAfter) {
					go closing()
				}
				err := w.operation()
				switch {
				case errors.Is(err, broken):
				case errors.Is(err, device.ErrClosed) && operations.Load() >= int64(closeAfter):
					return nil
				case err != nil:
					return fmt.Errorf("worker %d: %w", i, err)
				}
			}
			return nil
		}))
	}
	for _, done := range all {
		if err := f.Arrives("random copies", done); err != nil {
			t.Error(err)
		}
	}
	f.OK(f.Within("Close", closing))
	f.Fails("a copy after Close", e.H2D(ctx, 0, make([]byte, region)), device.ErrClosed)
}

// stressed does random copies, batches and boxes in two regions of its own.
// Bytes that a copy which failed may have left are not known: it reads them.
type stressed struct {
	*rand.Rand
	engine       *transfer.Engine
	a, b         device.Ptr
	wantA, wantB []byte
}

func (w *stressed) operation() (err error) {
	n := int64(len(w.wantA))
	p, want := w.a, w.wantA
	if w.IntN(2) == 0 {
		p, want = w.b, w.wantB
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var progress func(done, total int64)
	var last int64
	var wrong error
	if w.IntN(2) == 0 {
		after, cancels := w.Int64N(n), w.IntN(3) == 0
		progress = func(done, total int64) {
			if done < last || done > total {
				wrong = fmt.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
			if cancels && done >= after {
				cancel()
			}
		}
	}
	if w.IntN(5) == 0 {
		timer := time.AfterFunc(time.Duration(w.IntN(300))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	host := make([]byte, n)
	toHost := w.IntN(2) == 0
	if !toHost {
		w.fill(host)
	}
	var blocks []transfer.Block
	switch w.IntN(3) {
	case 0:
		at := w.Int64N(n)
		blocks = []transfer.Block{{Dst: at, Src: at, Bytes: 1 + w.Int64N(n-at)}}
		k := blocks[0]
		err = w.engine.Do(ctx, transfer.Copy{Host: host[at : at+k.Bytes], Device: p.Add(at), ToHost: toHost, Progress: progress})
	case 1:
		blocks = randomBlocks(w.Rand, n, []int64{1, 4, 16}[w.IntN(3)], 1+w.IntN(300))
		b := transfer.Batch{Dst: transfer.Device(p, n), Src: transfer.Host(host), Blocks: blocks, Progress: progress}
		if toHost {
			b.Dst, b.Src = b.Src, b.Dst
		}
		err = w.engine.Batch(ctx, b)
	default:
		row, rows := 1+w.Int64N(400), 1+w.Int64N(50)
		b := transfer.Box{Dst: transfer.Device(p, n), Src: transfer.Host(host), Progress: progress,
			RowBytes: row, Rows: rows, DstRowStride: row + w.Int64N(200), SrcRowStride: row + w.Int64N(200)}
		if toHost {
			b.Dst, b.Src = b.Src, b.Dst
		}
		for i := range rows {
			blocks = append(blocks, transfer.Block{Dst: i * b.DstRowStride, Src: i * b.SrcRowStride, Bytes: row})
		}
		err = w.engine.Box(ctx, b)
	}
	if wrong != nil {
		return wrong
	}
	if err == nil {
		for _, k := range blocks {
			if toHost && !bytes.Equal(host[k.Dst:k.Dst+k.Bytes], want[k.Src:k.Src+k.Bytes]) {
				return fmt.Errorf("wrong content from %d of %d blocks, to host %t", len(blocks), len(want), toHost)
			}
			if !toHost {
				copy(want[k.Dst:k.Dst+k.Bytes], host[k.Src:])
			}
		}
		return nil
	}
	fill(host, scribed) // with -race, a copier that still uses it is a race
	if !toHost && !errors.Is(err, device.ErrClosed) {
		if read := w.read(p, want); read != nil {
			return read
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// read learns what the region holds. The test's own failures do not matter
// here, so it tries until a copy gets through.
func (w *stressed) read(p device.Ptr, want []byte) error {
	for {
		err := w.engine.D2H(ctx, want, p)
		if err == nil {
			if bytes.Contains(want, bytes.Repeat([]byte{scribed}, 64)) {
				return errors.New("what was written after a copy returned arrived")
			}
			return nil
		}
		if errors.Is(err, device.ErrClosed) {
			return err
		}
	}
}

func (w *stressed) fill(b []byte) {
	seed := [32]byte{byte(w.Uint32()), byte(w.Uint32())}
	rand.NewChaCha8(seed).Read(b)
}
