package device

import (
	"context"
	"errors"
	"testing"
)

// polled is an event that is done after so many looks, or fails then.
type polled struct {
	Event
	looks int
	err   error

	looked, synchronised int
	each                 func()
}

func (p *polled) Done() (bool, error) {
	p.looked++
	if p.each != nil {
		p.each()
	}
	if p.looked < p.looks {
		return false, nil
	}
	return p.err == nil, p.err
}

func (p *polled) Synchronize() error {
	p.synchronised++
	return p.err
}

func TestWait(t *testing.T) {
	failed := errors.New("failed")
	withCancel := func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }

	t.Run("no context to end", func(t *testing.T) {
		for _, want := range []error{nil, failed} {
			e := &polled{err: want}
			if err := Wait(context.Background(), e); err != want || e.synchronised != 1 || e.looked != 0 {
				t.Errorf("error %v, %d times synchronised, %d times polled", err, e.synchronised, e.looked)
			}
		}
	})
	t.Run("done", func(t *testing.T) {
		ctx, cancel := withCancel()
		defer cancel()
		for _, looks := range []int{1, 2, 40} {
			e := &polled{looks: looks}
			if err := Wait(ctx, e); err != nil || e.looked != looks || e.synchronised != 0 {
				t.Errorf("error %v, %d times polled of %d", err, e.looked, looks)
			}
		}
	})
	t.Run("failed", func(t *testing.T) {
		ctx, cancel := withCancel()
		defer cancel()
		e := &polled{looks: 3, err: failed}
		if err := Wait(ctx, e); err != failed || e.looked != 3 {
			t.Errorf("error %v after %d looks", err, e.looked)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := withCancel()
		e := &polled{looks: 1 << 30}
		e.each = func() {
			if e.looked == 5 {
				cancel()
			}
		}
		if err := Wait(ctx, e); !errors.Is(err, context.Canceled) || e.looked != 5 {
			t.Errorf("error %v after %d looks", err, e.looked)
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := withCancel()
		cancel()
		e := &polled{}
		if err := Wait(ctx, e); !errors.Is(err, context.Canceled) || e.looked != 0 {
			t.Errorf("error %v after %d looks", err, e.looked)
		}
	})
}
