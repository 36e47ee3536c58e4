// Package devicetest opens devices for the tests of other packages.
//
// They test on whatever [Open] gives them: the host backend, or the device
// that the environment variable PINION_DEVICE names. So the same tests run on
// a GPU with
//
//	PINION_DEVICE=cuda:0 go test ./...
//
// [OpenDiscrete] opens the host backend as a device behind a link, where what a
// package does about pinning can be tested without one.
//
// The suite that every backend passes is package conformance.
package devicetest
