package sysmem

import (
	"math"
	"strconv"
	"strings"
)

// parseMeminfo reads /proc/meminfo. Kernels before 3.14 have no MemAvailable;
// there it is estimated from what is free and what is cache.
func parseMeminfo(text string) memory {
	kib := fields(text)
	available, ok := kib["MemAvailable:"]
	if !ok {
		available = add(add(kib["MemFree:"], kib["Buffers:"]), kib["Cached:"])
	}
	total := scale(kib["MemTotal:"], 1024)
	return memory{limit: total, available: min(scale(available, 1024), total)}
}

// fields reads lines of a name and a number; what follows them is ignored,
// and so are lines of another form and numbers below zero.
func fields(text string) map[string]int64 {
	m := make(map[string]int64)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseInt(f[1], 10, 64); err == nil && n >= 0 {
			m[f[0]] = n
		}
	}
	return m
}

// add and scale stop at the largest integer: the files may hold anything.
func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func scale(a, by int64) int64 {
	if a > math.MaxInt64/by {
		return math.MaxInt64
	}
	return a * by
}
