package main

import (
	"context"
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

func TestRun(t *testing.T) {
	for _, pin := range []bool{false, true} {
		// 16 MiB in and 32 MiB out, through 4 MiB for the buffers at most.
		err := run(context.Background(), "host:8MiB", 4096, pin)
		if err != nil && !errors.Is(err, device.ErrPinLimit) {
			t.Errorf("pinned %t: %v", pin, err)
		}
	}
	if err := run(context.Background(), "host:8MiB", 0, false); err == nil {
		t.Error("no rows, no error")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ended, "host:8MiB", 4096, false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
