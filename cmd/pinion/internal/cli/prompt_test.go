package cli

import (
	"context"
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestPromptly(t *testing.T) {
	mine := errors.New("mine")
	if n, err := Promptly(t.Context(), func() (int, error) { return 5, mine }); n != 5 || err != mine {
		t.Errorf("%d, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Promptly(ctx, func() (int, error) { cancel(); return 0, mine })
	if err != mine {
		t.Errorf("of work that noticed: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	stuck := make(chan struct{})
	defer close(stuck)
	done := make(chan error, 1)
	go func() {
		_, err := Promptly(ctx, func() (int, error) { cancel(); <-stuck; return 0, nil })
		done <- err
	}()
	if err := testkit.Receive(t, "Promptly", done); !errors.Is(err, context.Canceled) {
		t.Errorf("of work that did not: %v", err)
	}
}
