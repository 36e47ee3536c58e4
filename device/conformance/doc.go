// Package conformance is the suite that every backend passes: what package
// device promises, written as tests against the interfaces alone. A backend's
// own test is one line:
//
//	func TestConformance(t *testing.T) { conformance.Run(t, open) }
//
// [Run] makes one sub-test for each promise of the interfaces, each on a
// device of its own. What a device cannot do (no pinning, no Go functions in
// streams) is skipped by the name of the capability. Tests that need a stream
// to stand still use [device.Caller]; elsewhere the same test runs with busy
// streams, where it checks the content only.
//
// [RunPeers] checks copies between two devices that differ, such as two GPUs.
package conformance
