package replay_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

func ExampleRun() {
	const text = `{"op":"alloc","id":1,"bytes":600000000,"purpose":"weights"}
{"op":"alloc","id":2,"bytes":400000000,"purpose":"activations"}
{"op":"free","id":2}
{"op":"alloc","id":3,"bytes":600000000,"purpose":"activations"}
`
	reader, err := trace.NewReader(strings.NewReader(text), trace.Options{})
	if err != nil {
		log.Fatal(err)
	}
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := replay.NewPool(dev, vram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	result, err := replay.Run(context.Background(), reader.All(), pool, replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("events:", result.Events)
	fmt.Println("peak live:", result.PeakLiveBytes)
	fmt.Println("out of memory:", result.OOMs, "at", result.LeastOOMBytes)
	// Output:
	// events: 4
	// peak live: 1000000000
	// out of memory: 1 at 1200000000
}
