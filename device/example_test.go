package device_test

import (
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

// Bytes go to the device, are worked on there, and come back.
func Example() {
	dev, err := device.Open("host:64MiB") // or "auto", "cuda:0", …
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()

	p, err := dev.Alloc(8)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Free(p)

	s, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	// Three operations are queued, and run in this order.
	b := []byte("pinion!?")
	if err := s.CopyH2D(p, b); err != nil {
		log.Fatal(err)
	}
	if err := s.Memset(p.Add(6), '.', 2); err != nil {
		log.Fatal(err)
	}
	if err := s.CopyD2H(b, p); err != nil {
		log.Fatal(err)
	}
	// Only now may b be looked at.
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)
	// Output: pinion..
}

// Best says why it did not open something better.
func ExampleBest() {
	dev, passed, err := device.Best()
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	if passed != nil {
		log.Printf("working on %s: %v", dev.Info().Name, passed)
	}
}

// One stream waits for another without the host.
func ExampleStream_wait() {
	dev, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close() // closes streams and events, and frees memory

	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	p, err := dev.Alloc(4)
	must(err)
	producer, err := dev.NewStream()
	must(err)
	consumer, err := dev.NewStream()
	must(err)
	ready, err := dev.NewEvent(device.EventNoTiming)
	must(err)

	must(producer.Memset(p, 'x', 4))
	must(producer.Record(ready))

	b := make([]byte, 4)
	must(consumer.Wait(ready))
	must(consumer.CopyD2H(b, p))
	must(consumer.Synchronize())
	fmt.Printf("%s\n", b)
	// Output: xxxx
}

// counting counts the allocations of a device.
type counting struct {
	device.Wrapper
	allocs int
}

func (c *counting) Alloc(n int64) (device.Ptr, error) {
	c.allocs++
	return c.Device.Alloc(n)
}

// A wrapper changes one method and keeps every ability of the device inside.
func ExampleWrapper() {
	inner, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer inner.Close()

	dev := &counting{Wrapper: device.Wrapper{Device: inner}}
	if _, err := dev.Alloc(1 << 20); err != nil {
		log.Fatal(err)
	}
	_, canPin := device.As[device.Pinner](dev)
	fmt.Println(dev.allocs, canPin)
	// Output: 1 true
}
