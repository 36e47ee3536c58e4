package devicetest

import (
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

// Open opens the device that the environment variable PINION_DEVICE names, or
// "host" without it, and closes it when the test ends. The test fails when
// there is no such device.
func Open(t testing.TB) device.Device {
	t.Helper()
	name := os.Getenv("PINION_DEVICE")
	if name == "" {
		name = "host"
	}
	dev, err := device.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("closing %s: %v", name, err)
		}
	})
	return dev
}

// Run checks that the devices that open gives keep the contract of package
// device. Each call of open must give a device of its own; the suite closes
// it. A device of at most 1 GiB is also filled to the brim and has its free
// bytes counted, which would be rude on one that others use.
func Run(t *testing.T, open func(t testing.TB) device.Device) {
	keepOpen(t, open)
	for _, c := range slices.Concat([]conformanceTest{
		{"info", testInfo},
		{"capabilities", testCapabilities},
		{"no-goroutines-left", testGoroutines},

		{"alloc", testAlloc},
		{"alloc-arguments", testAllocArguments},
		{"out-of-memory", testOutOfMemory},
		{"exhaustion", testExhaustion},
		{"free-bytes", testFreeBytes},
		{"free-bad-pointer", testFreeBadPointer},
		{"free-while-queued", testFreeWhileQueued},

		{"copy-pageable", testCopyPageable},
		{"copy-pinned", testCopyPinned},
		{"copy-arguments", testCopyArguments},
		{"copy-outside-allocation", testCopyOutside},
		{"memset", testMemset},
		{"random-operations", testRandomOperations},

		{"stream-order", testStreamOrder},
		{"stream-independence", testStreamIndependence},
		{"stream-close-waits", testStreamClose},
		{"wait-across-streams", testWaitAcross},
		{"wait-newest-mark", testWaitNewestMark},
		{"event-unrecorded", testEventUnrecorded},
		{"event-synchronize", testEventSynchronize},
		{"event-two-streams", testEventTwoStreams},
		{"event-since", testEventSince},
		{"event-since-errors", testEventSinceErrors},
		{"event-closed-under-work", testEventClosedUnderWork},
		{"event-arguments", testEventArguments},
		{"wait-context", testWaitContext},

		{"closed-stream", testClosedStream},
		{"closed-event", testClosedEvent},
		{"closed-device", testClosedDevice},
		{"close-frees", testCloseFrees},
		{"close-in-flight", testCloseInFlight},
		{"close-waits", testCloseWaits},
		{"close-while-queueing", testCloseWhileQueueing},
		{"many-goroutines", testManyGoroutines},

		{"call-order", testCallOrder},
		{"call-errors", testCallErrors},
		{"call-bytes", testCallBytes},
		{"pin", testPin},
		{"pin-mapped", testPinMapped},
		{"alloc-host", testAllocHost},
		{"batch", testBatch},
		{"batch-order", testBatchOrder},
		{"batch-goroutines", testBatchGoroutines},
		{"batch-arguments", testBatchArguments},
		{"box", testBox},
		{"box-order", testBoxOrder},
		{"box-arguments", testBoxArguments},
		{"managed", testManaged},
		{"range", testRange},
		{"native", testNative},
		{"native-stream-of", testStreamOf},
		{"record-all", testRecordAll},
		{"record-all-wait", testRecordAllWait},
		{"record-all-errors", testRecordAllErrors},
		{"virtual-memory", testVirtualMemory},
		{"virtual-memory-errors", testVirtualMemoryErrors},
		{"virtual-memory-many", testVirtualMemoryMany},
		{"virtual-memory-all-or-nothing", testVirtualMemoryAllOrNothing},
		{"virtual-memory-capacity", testVirtualMemoryCapacity},
		{"virtual-memory-random", testVirtualMemoryRandom},
		{"virtual-memory-unmap-queued", testVirtualMemoryUnmapQueued},
		{"virtual-memory-threads", testVirtualMemoryThreads},
		{"async", testAsync},
		{"async-reuse", testAsyncReuse},
		{"async-free-waits", testAsyncFreeWaits},
		{"async-memory", testAsyncMemory},
		{"async-arguments", testAsyncArguments},
		{"async-close", testAsyncClose},
		{"async-goroutines", testAsyncGoroutines},
	}, peerTests) {
		t.Run(c.name, func(t *testing.T) { c.run(newFixture(t, open)) })
	}
}

// conformanceTest checks one promise on a device of its own.
type conformanceTest struct {
	name string
	run  func(*fixture)
}

// keepOpen keeps a device open to the end of t. What devices share (CUDA's
// primary context) lives as long as one of them is open, and so is not made
// anew by every test.
func keepOpen(t *testing.T, open func(t testing.TB) device.Device) {
	keep := open(t)
	t.Cleanup(func() {
		if err := keep.Close(); err != nil {
			t.Errorf("close of the last device: %v", err)
		}
	})
}

// As is [device.As] for a test that needs the ability: it fails the test when
// dev lacks it.
func As[T any](t testing.TB, dev device.Device) T {
	t.Helper()
	ability, ok := device.As[T](dev)
	if !ok {
		t.Fatalf("%s is no %s", dev.Info().ID, reflect.TypeFor[T]())
	}
	return ability
}
