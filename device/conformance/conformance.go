package conformance

import (
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
	"github.com/pinion-gpu/pinion/device/conformance/internal/memory"
)

// Run checks that the devices that open gives keep the contract of package
// device. Each call of open must give a device of its own; the suite closes
// it. A device of at most 1 GiB is also filled up and has its free bytes counted;
// larger ones may be shared with others.
func Run(t *testing.T, open func(t testing.TB) device.Device) {
	keepOpen(t, open)
	for _, c := range slices.Concat([]fixture.Test{
		{Name: "info", Run: testInfo},
		{Name: "capabilities", Run: testCapabilities},
		{Name: "no-goroutines-left", Run: testGoroutines},

		{Name: "alloc", Run: testAlloc},
		{Name: "alloc-arguments", Run: testAllocArguments},
		{Name: "out-of-memory", Run: testOutOfMemory},
		{Name: "exhaustion", Run: testExhaustion},
		{Name: "free-bytes", Run: testFreeBytes},
		{Name: "free-bad-pointer", Run: testFreeBadPointer},
		{Name: "free-while-queued", Run: testFreeWhileQueued},

		{Name: "copy-pageable", Run: testCopyPageable},
		{Name: "copy-pinned", Run: testCopyPinned},
		{Name: "copy-arguments", Run: testCopyArguments},
		{Name: "copy-outside-allocation", Run: testCopyOutside},
		{Name: "memset", Run: testMemset},
		{Name: "random-operations", Run: testRandomOperations},

		{Name: "stream-order", Run: testStreamOrder},
		{Name: "stream-independence", Run: testStreamIndependence},
		{Name: "stream-close-waits", Run: testStreamClose},
		{Name: "wait-across-streams", Run: testWaitAcross},
		{Name: "wait-newest-mark", Run: testWaitNewestMark},
		{Name: "event-unrecorded", Run: testEventUnrecorded},
		{Name: "event-synchronize", Run: testEventSynchronize},
		{Name: "event-two-streams", Run: testEventTwoStreams},
		{Name: "event-since", Run: testEventSince},
		{Name: "event-since-errors", Run: testEventSinceErrors},
		{Name: "event-closed-under-work", Run: testEventClosedUnderWork},
		{Name: "event-arguments", Run: testEventArguments},
		{Name: "wait-context", Run: testWaitContext},

		{Name: "closed-stream", Run: testClosedStream},
		{Name: "closed-event", Run: testClosedEvent},
		{Name: "closed-device", Run: testClosedDevice},
		{Name: "close-frees", Run: testCloseFrees},
		{Name: "close-in-flight", Run: testCloseInFlight},
		{Name: "close-waits", Run: testCloseWaits},
		{Name: "close-while-queueing", Run: testCloseWhileQueueing},
		{Name: "many-goroutines", Run: testManyGoroutines},

		{Name: "call-order", Run: testCallOrder},
		{Name: "call-errors", Run: testCallErrors},
		{Name: "call-bytes", Run: testCallBytes},
		{Name: "batch", Run: testBatch},
		{Name: "batch-order", Run: testBatchOrder},
		{Name: "batch-goroutines", Run: testBatchGoroutines},
		{Name: "batch-arguments", Run: testBatchArguments},
		{Name: "box", Run: testBox},
		{Name: "box-order", Run: testBoxOrder},
		{Name: "box-arguments", Run: testBoxArguments},
		{Name: "native", Run: testNative},
		{Name: "native-stream-of", Run: testStreamOf},
		{Name: "record-all", Run: testRecordAll},
		{Name: "record-all-wait", Run: testRecordAllWait},
		{Name: "record-all-errors", Run: testRecordAllErrors},
		{Name: "capture", Run: testCapture},
		{Name: "capture-two-streams", Run: testCaptureTwoStreams},
		{Name: "capture-calls", Run: testCaptureCalls},
		{Name: "capture-random", Run: testCaptureRandom},
		{Name: "capture-refused", Run: testCaptureRefused},
		{Name: "capture-errors", Run: testCaptureErrors},
		{Name: "capture-beside", Run: testCaptureBeside},
		{Name: "capture-launches-in-turn", Run: testCaptureTurns},
		{Name: "capture-close", Run: testCaptureClose},
	}, memory.Tests, peerTests) {
		t.Run(c.Name, func(t *testing.T) { c.Run(fixture.New(t, open)) })
	}
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
