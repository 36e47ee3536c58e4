package managed_test

import (
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/managed"
)

// An array that the host fills and a kernel converts, without a copy in the
// program.
func Example() {
	dev, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	set, err := kernels.Load(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}

	const n = 1000
	from, err := managed.New[int32](dev, n, managed.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer from.Free()
	to, err := managed.New[float32](dev, n, managed.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer to.Free()

	numbers, _ := from.Slice()
	for i := range numbers {
		numbers[i] = int32(i)
	}
	src, _ := from.Ptr()
	dst, _ := to.Ptr()
	if err := from.Prefetch(stream, device.OnDevice); err != nil {
		log.Fatal(err)
	}
	if err := set.Cast(stream, dst, dtype.F32, src, dtype.I32, n); err != nil {
		log.Fatal(err)
	}
	if err := to.Prefetch(stream, device.OnHost); err != nil {
		log.Fatal(err)
	}
	if err := stream.Synchronize(); err != nil {
		log.Fatal(err)
	}
	floats, _ := to.Slice()
	fmt.Println(floats[7], floats[999])
	// Output: 7 999
}
