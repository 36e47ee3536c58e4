// Package localtest runs tests on ranks that are goroutines.
package localtest

import (
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// Run runs fn on n ranks, each with a device of its own, such as "host:4MiB", and returns
// their errors. A rank that fails aborts its communicator. Devices are closed with the test,
// behind what fn leaves to t.Cleanup, and no goroutine may be left then.
func Run(t testing.TB, n int, name string, fn func(c parallel.Comm) error) []error {
	t.Helper()
	testkit.NoLeaks(t)
	var devices []device.Device
	for range n {
		dev := testkit.Must(device.Open(name))(t)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, c := range testkit.Must(local.New(devices...))(t) {
		all.Go(func() {
			if errs[i] = fn(c); errs[i] != nil {
				c.Abort(errs[i])
			}
		})
	}
	all.Wait()
	return errs
}
