package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// worker does random copies in a region of device memory of its own and knows
// what the region holds. The regions lie side by side, so that a byte that
// strays is found by the neighbour.
type worker struct {
	*rand.Rand
	engine *transfer.Engine
	region device.Ptr
	want   []byte
	pinned []byte // pinned memory to copy from and to; may be empty
	log    []string
}

func TestRandomOperations(t *testing.T) {
	const workers, region, rounds = 4, 200_003, 80
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := open(t)
			e := f.Engine(transfer.Options{Copiers: 2, Slots: 3, SlotBytes: 7000, StageAbove: 12_000})
			block := f.Alloc(workers * region)
			f.Memset(block, 0, workers*region)
			pinned := f.PinnedMemory(workers * region)
			var all sync.WaitGroup
			for i := range int64(workers) {
				w := &worker{
					Rand:   rand.New(rand.NewPCG(seed, uint64(i))),
					engine: e,
					region: block.Add(i * region),
					want:   make([]byte, region),
					pinned: pinned[i*region : (i+1)*region],
				}
				all.Go(func() {
					for range rounds {
						if err := w.operation(); err != nil {
							t.Errorf("worker %d: %v, after %v", i, err, w.log)
							return
						}
					}
				})
			}
			if err := f.Within("random operations", func() error { all.Wait(); return nil }); err != nil {
				t.Error(err)
			}
			for i := range int64(workers) {
				got := f.Download(make([]byte, region), block.Add(i*region))
				back := make([]byte, region)
				f.OK(e.D2H(ctx, back, block.Add(i*region)))
				if !bytes.Equal(got, back) {
					t.Errorf("worker %d: the engine and a plain copy read different bytes", i)
				}
			}
		})
	}
}

// memory returns n bytes of random content, at a random offset, of either
// kind.
func (w *worker) memory(n int) []byte {
	b := make([]byte, n+w.IntN(9))
	b = b[len(b)-n:]
	if w.IntN(3) == 0 {
		at := w.IntN(len(w.pinned) - n + 1)
		b = w.pinned[at : at+n]
	}
	for i := range b {
		b[i] = byte(i*7) ^ byte(w.Uint32()&3)
	}
	return b
}

func (w *worker) operation() error {
	at := w.IntN(len(w.want) + 1)
	n := w.IntN(len(w.want) - at + 1)
	if w.IntN(3) == 0 {
		n = min(n, 3000)
	}
	host, p := w.memory(n), w.region.Add(int64(at))
	held := w.want[at : at+n]
	kind := w.IntN(6)
	w.log = append(w.log, fmt.Sprintf("%d: %d+%d", kind, at, n))
	switch kind {
	case 0, 1:
		if err := w.engine.H2D(ctx, p, host); err != nil {
			return err
		}
		copy(held, host)
	case 2:
		if err := w.engine.D2H(ctx, host, p); err != nil {
			return err
		}
		if !bytes.Equal(host, held) {
			return errors.New("D2H brought other bytes than were sent")
		}
	case 3:
		return w.withProgress(transfer.Copy{Host: host, Device: p, ToHost: true}, held)
	case 4:
		return w.cancelled(transfer.Copy{Host: host, Device: p}, held)
	case 5:
		if n == 0 {
			return nil // a copy of nothing goes anywhere
		}
		if err := w.engine.Do(ctx, transfer.Copy{Host: host, Device: nowhere, ToHost: w.IntN(2) == 0}); !errors.Is(err, device.ErrPointer) {
			return fmt.Errorf("copy of nowhere: %v", err)
		}
	}
	return nil
}

func (w *worker) withProgress(c transfer.Copy, want []byte) error {
	var last int64
	var wrong error
	c.Progress = func(done, total int64) {
		if done < last || done > total || total != int64(len(c.Host)) {
			wrong = fmt.Errorf("progress %d of %d, after %d, of %d", done, total, last, len(c.Host))
		}
		last = done
	}
	if err := w.engine.Do(ctx, c); err != nil {
		return err
	}
	if last != int64(len(c.Host)) {
		wrong = fmt.Errorf("progress ended at %d of %d", last, len(c.Host))
	}
	if !bytes.Equal(c.Host, want) {
		wrong = errors.Join(wrong, errors.New("D2H brought other bytes than were sent"))
	}
	return wrong
}

// cancelled cancels a copy to the device before it, in it, or not at all. Each
// byte is then the old or the new one.
func (w *worker) cancelled(c transfer.Copy, held []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	after := w.Int64N(int64(len(c.Host)) + 2)
	if w.IntN(4) == 0 {
		cancel()
	}
	c.Progress = func(done, _ int64) {
		if done >= after {
			cancel()
		}
	}
	err := w.engine.Do(ctx, c)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	sent := bytes.Clone(c.Host)
	fill(c.Host, 0xEE) // with -race, a copier that still reads it is a race
	now := make([]byte, len(held))
	if err := w.engine.D2H(context.Background(), now, c.Device); err != nil {
		return err
	}
	for i, b := range now {
		if b != sent[i] && (err == nil || b != held[i]) {
			return fmt.Errorf("error %v: byte %d of %d is neither the old nor the new one", err, i, len(now))
		}
	}
	copy(held, now)
	return nil
}
