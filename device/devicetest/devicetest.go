package devicetest

import (
	"os"
	"reflect"
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
