package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

func Example() {
	dev, err := device.Open("host:256MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close() // before the device

	data := bytes.Repeat([]byte("pinion"), 1<<20)
	ptr, err := dev.Alloc(int64(len(data)))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := engine.H2D(ctx, ptr, data); err != nil {
		log.Fatal(err)
	}
	back := make([]byte, len(data))
	if err := engine.D2H(ctx, back, ptr); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Equal(back, data))
	// Output: true
}

func ExampleEngine_Do() {
	dev, err := device.Open("host:256MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	ptr, err := dev.Alloc(96 << 20)
	if err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // would stop a copy that is under way at its next part
	err = engine.Do(ctx, transfer.Copy{
		Host:   make([]byte, 96<<20),
		Device: ptr,
		Progress: func(done, total int64) {
			fmt.Printf("%d of %d MiB\n", done>>20, total>>20)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 64 of 96 MiB
	// 96 of 96 MiB
}

// A copy in the order of a stream, between work that is queued before and
// after it.
func ExampleEngine_Do_stream() {
	dev, err := device.Open("host:16MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	ptr, err := dev.Alloc(4096)
	if err != nil {
		log.Fatal(err)
	}

	ctx, host := context.Background(), make([]byte, 4096)
	for _, err := range []error{
		stream.Memset(ptr, 7, 4096),
		engine.Do(ctx, transfer.Copy{Host: host, Device: ptr, ToHost: true, On: stream}), // sees the memset
		stream.Memset(ptr, 0, 4096), // comes too late for the copy
		stream.Synchronize(),        // host may be read now
	} {
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(host[0], host[4095])
	// Output: 7 7
}
