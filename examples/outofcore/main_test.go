package main

import (
	"context"
	"errors"
	"testing"
)

func TestRun(t *testing.T) {
	if err := run(context.Background(), "host", 500, 2); err != nil {
		t.Error(err)
	}
	if err := run(context.Background(), "host", 0, 2); err == nil {
		t.Error("no rows, no error")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ended, "host", 300, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
