// Package devicetest is the conformance suite of package device: what every
// backend must do, written as tests against the interfaces alone. A backend's
// own test is one line:
//
//	func TestConformance(t *testing.T) { devicetest.Run(t, open) }
//
// [Run] makes one sub-test for each promise of the interfaces, each on a
// device of its own. What a device cannot do (no pinning, no Go functions in
// streams) is skipped by the name of the capability. Tests that need a stream
// to stand still use [device.Caller]; elsewhere the same test runs with busy
// streams, where it checks the content only.
//
// [RunPeers] checks copies between two devices that differ, such as two GPUs.
//
// # A device for other tests
//
// Packages above device test on whatever [Open] gives them: the host backend,
// or the device that the environment variable PINION_DEVICE names. So the same
// tests run on a GPU with
//
//	PINION_DEVICE=cuda:0 go test ./...
//
// [OpenDiscrete] opens the host backend as a device behind a link, where what a
// package does about pinning can be tested without one.
package devicetest
