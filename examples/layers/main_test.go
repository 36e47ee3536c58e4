package main

import (
	"context"
	"errors"
	"testing"
)

func TestRun(t *testing.T) {
	o := options{device: "host", layers: 12, width: 96, batch: 5, rounds: 2}
	if err := run(context.Background(), o); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ended, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	o.rounds = 0
	if err := run(context.Background(), o); err == nil {
		t.Error("no rounds, no error")
	}
}
