package tier_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/tier"
)

// Four arrays take turns in the room of two.
func Example() {
	ctx := context.Background()
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	store, err := tier.New(dev, tier.Options{DeviceBytes: 8 << 20, HostBytes: 32 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()

	var layers []*tier.Array
	for i := range 4 {
		a, err := store.NewArray(fmt.Sprintf("layer %d", i), 4<<20)
		if err != nil {
			log.Fatal(err)
		}
		layers = append(layers, a)
	}
	store.Sequential(layers...)
	for i, a := range layers {
		lease, err := store.Use(ctx, stream, tier.Overwrite(a))
		if err != nil {
			log.Fatal(err)
		}
		if err := stream.Memset(lease.Ptr(a), byte(i), a.Bytes()); err != nil {
			log.Fatal(err)
		}
		if err := lease.Release(); err != nil {
			log.Fatal(err)
		}
	}
	first := make([]byte, 4)
	for i, a := range layers {
		if err := a.ReadAt(ctx, first, 0); err != nil {
			log.Fatal(err)
		}
		fmt.Println(a.Name(), "begins with", first[0] == byte(i))
	}
	// Output:
	// layer 0 begins with true
	// layer 1 begins with true
	// layer 2 begins with true
	// layer 3 begins with true
}
