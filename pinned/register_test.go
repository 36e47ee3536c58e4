package pinned

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// mapped returns pages that are unmapped when the test ends.
func mapped(t *testing.T, n int64) []byte {
	t.Helper()
	b, err := pagemem.Map(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pagemem.Unmap(b) })
	return b
}

// The pages that hold a slice are pinned, and counted, until it is
// unregistered.
func TestRegister(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: mib, SegmentBytes: mib / 4, ShrinkAfter: -1})
	page := pagemem.PageSize()
	all := mapped(t, 16*page)
	for _, c := range []struct{ from, to, pages int64 }{
		{0, 1, 1}, {page - 1, page, 1}, {page - 1, page + 1, 2}, {100, 3 * page, 3}, {0, 16 * page, 16}, {5*page + 1, 6*page + 1, 2},
	} {
		r, err := p.Register(all[c.from:c.to])
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := dev.state(); n != c.pages*page || p.Stats().RegisteredBytes != n {
			t.Errorf("bytes %d to %d: %d bytes pinned, want %d pages", c.from, c.to, n, c.pages)
		}
		if &r.Bytes()[0] != &all[c.from] || int64(len(r.Bytes())) != c.to-c.from {
			t.Error("other bytes than were given")
		}
		whole, _ := dev.Mapped(all)
		if at, err := r.Mapped(); err != nil || at != whole.Add(c.from) {
			t.Errorf("mapped at %#x, %v, want %#x", at, err, whole.Add(c.from))
		}
		if err := r.Unregister(); err != nil {
			t.Error(err)
		}
		if err := r.Unregister(); !errors.Is(err, ErrFreed) {
			t.Errorf("a second time: %v", err)
		}
		if _, err := r.Mapped(); !errors.Is(err, ErrFreed) {
			t.Errorf("mapped: %v", err)
		}
	}
	if n, _ := dev.state(); n != 0 || p.Stats().RegisteredBytes != 0 {
		t.Errorf("%d bytes are still pinned", n)
	}
}

// While the driver unpins, the pool serves others; a second call fails at once, and
// Close waits.
func TestUnregisterUnlocked(t *testing.T) {
	dev := newGated()
	dev.open.Store(true)
	p, err := NewPool(dev, Options{Budget: 8 * mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustFree(t, mustAlloc(t, p, 2*mib))
	r, err := p.Register(mapped(t, mib))
	if err != nil {
		t.Fatal(err)
	}
	dev.open.Store(false)
	done := make(chan error)
	go func() { done <- r.Unregister() }()
	<-dev.entered
	served := make(chan *Buffer)
	go func() { served <- mustAlloc(t, p, 2*mib) }()
	select {
	case b := <-served:
		mustFree(t, b)
	case <-time.After(testkit.Hang):
		t.Fatal("the pool waits for the driver")
	}
	if err := r.Unregister(); !errors.Is(err, ErrFreed) {
		t.Errorf("a second call meanwhile: %v", err)
	}
	closed := make(chan error)
	go func() { closed <- p.Close() }()
	close(dev.gate)
	if err := errors.Join(<-done, <-closed); err != nil {
		t.Error(err)
	}
	if n, _ := dev.state(); n != 0 {
		t.Errorf("%d bytes pinned", n)
	}
}

func TestRegisterErrors(t *testing.T) {
	dev := newFake()
	p, err := NewPool(dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Register(nil); !errors.Is(err, device.ErrArgument) {
		t.Errorf("no bytes: %v", err)
	}
	all := mapped(t, 2*mib)
	if _, err := p.Register(all); !errors.Is(err, ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
	// A free segment makes room; one in use does not.
	b := mustAlloc(t, p, mib)
	if _, err := p.Register(all[:mib/2]); !errors.Is(err, ErrBudget) || !strings.HasPrefix(err.Error(), "pinned: register 512 KiB") {
		t.Errorf("beside a buffer: %v", err)
	}
	mustFree(t, b)
	r, err := p.Register(all[:mib/2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Register(all[:1]); !errors.Is(err, device.ErrArgument) {
		t.Errorf("twice: %v", err)
	}
	if _, err := p.Alloc(ctx, mib); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "registered 512 KiB") {
		t.Errorf("a buffer beside it: %v", err)
	}
	dev.pinLimit = mib / 2
	if _, err := p.Register(all[mib:][:4096]); !errors.Is(err, device.ErrPinLimit) {
		t.Errorf("beyond the system's limit: %v", err)
	}
	if err := p.Close(); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "512 KiB of registered memory stay") {
		t.Errorf("close: %v", err)
	}
	if _, err := p.Register(all[:1]); !errors.Is(err, device.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := r.Unregister(); err != nil {
		t.Error(err)
	}
	q, err := NewPool(plainDevice{dev}, Options{AllowPageable: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Register(all); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("a device that cannot pin: %v", err)
	}
}

// Memory that was freed, and whose work is done, makes room.
func TestRegisterAfterPending(t *testing.T) {
	dev := newFake()
	p := newPool(t, dev, Options{Budget: mib, SegmentBytes: mib, ShrinkAfter: -1})
	mustFree(t, mustAlloc(t, p, mib), &fakeStream{dev: dev})
	dev.Synchronize()
	r, err := p.Register(mapped(t, mib))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Unregister(); err != nil {
		t.Error(err)
	}
}
