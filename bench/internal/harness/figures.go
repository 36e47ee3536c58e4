package harness

import "runtime"

// HeapBytes is what is live in the Go heap.
func HeapBytes() int64 {
	runtime.GC()
	runtime.GC() // pools keep what they have for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
