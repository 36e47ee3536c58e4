package main

import (
	"bytes"
	"fmt"
	"os"
)

// peakBytes is the most memory that this process has had.
func peakBytes() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	var kib int64
	_, rest, _ := bytes.Cut(status, []byte("VmHWM:"))
	if _, err := fmt.Sscan(string(rest), &kib); err != nil {
		return 0, fmt.Errorf("VmHWM in /proc/self/status: %w", err)
	}
	return kib << 10, nil
}
