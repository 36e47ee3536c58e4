// Package memory is the part of the suite about memory beyond Alloc and Free:
// virtual, managed, allocated in stream order, and that of the host.
package memory

import "github.com/pinion-gpu/pinion/device/conformance/internal/fixture"

// Tests are those of this package, each for a capability.
var Tests = []fixture.Test{
	{Name: "pin", Run: testPin},
	{Name: "pin-mapped", Run: testPinMapped},
	{Name: "alloc-host", Run: testAllocHost},
	{Name: "managed", Run: testManaged},
	{Name: "managed-prefetch", Run: testManagedPrefetch},
	{Name: "managed-advice", Run: testManagedAdvice},
	{Name: "managed-residency", Run: testManagedResidency},
	{Name: "managed-room", Run: testManagedRoom},
	{Name: "managed-random", Run: testManagedRandom},
	{Name: "range", Run: testRange},
	{Name: "virtual-memory", Run: testVirtualMemory},
	{Name: "virtual-memory-errors", Run: testVirtualMemoryErrors},
	{Name: "virtual-memory-many", Run: testVirtualMemoryMany},
	{Name: "virtual-memory-twice", Run: testVirtualMemoryTwice},
	{Name: "virtual-memory-all-or-nothing", Run: testVirtualMemoryAllOrNothing},
	{Name: "virtual-memory-capacity", Run: testVirtualMemoryCapacity},
	{Name: "virtual-memory-random", Run: testVirtualMemoryRandom},
	{Name: "virtual-memory-unmap-queued", Run: testVirtualMemoryUnmapQueued},
	{Name: "virtual-memory-threads", Run: testVirtualMemoryThreads},
	{Name: "async", Run: testAsync},
	{Name: "async-reuse", Run: testAsyncReuse},
	{Name: "async-free-waits", Run: testAsyncFreeWaits},
	{Name: "async-memory", Run: testAsyncMemory},
	{Name: "async-arguments", Run: testAsyncArguments},
	{Name: "async-close", Run: testAsyncClose},
	{Name: "async-goroutines", Run: testAsyncGoroutines},
}
