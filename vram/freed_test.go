package vram

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Whoever waits for memory is told of the next block that is freed, and only of that,
// whether the pool keeps it or gives it back.
func TestFreed(t *testing.T) {
	exact(t)
	p := newPool(t, openHost(t, "host:64MiB"), Options{Budget: 32 << 20})
	told := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	for _, n := range []int64{512, 1 << 20, 16 << 20} {
		a, b := alloc(t, p, n, Use{}), alloc(t, p, n, Use{})
		one, two := p.Freed(), p.Freed()
		if told(one) || told(two) {
			t.Errorf("%d: told too soon", n)
		}
		testkit.OK(t, a.Free())
		later := p.Freed()
		if !told(one) || !told(two) || told(later) {
			t.Errorf("%d: told %v, %v, and later %v", n, told(one), told(two), told(later))
		}
		testkit.OK(t, b.Free())
		if !told(later) {
			t.Errorf("%d: not told", n)
		}
	}
	last := p.Freed()
	testkit.OK(t, p.Close())
	if !told(last) || !told(p.Freed()) {
		t.Error("nobody is told that the pool was closed")
	}
}

// What is freed in a pool helps where the pool has no more, and not where the device
// has no more.
func TestOfPool(t *testing.T) {
	for _, c := range []struct {
		options Options
		n       int64
		want    bool
	}{
		{Options{Budget: 16 << 20}, 24 << 20, true},
		{Options{Limits: map[Purpose]int64{Other: 1 << 20}}, 2 << 20, true},
		{Options{}, 80 << 20, false},
	} {
		p := newPool(t, openHost(t, "host:64MiB"), c.options)
		_, err := p.Alloc(ctx, c.n, Use{})
		var short *OutOfMemoryError
		if !errors.As(err, &short) || short.OfPool() != c.want {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
}
