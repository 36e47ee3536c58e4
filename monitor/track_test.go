package monitor_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/vram"
)

func ExampleTrack() {
	dev, err := device.Open("host:64MiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var losses []vram.Block
	report, err := monitor.Track(100, func() error {
		hidden, err := pool.Alloc(context.Background(), 1<<20, vram.Use{Purpose: vram.Activations})
		if err != nil {
			return err
		}
		loss, err := pool.Alloc(context.Background(), 4096, vram.Use{Purpose: vram.Activations, Name: "loss"})
		if err != nil {
			return err
		}
		losses = append(losses, loss) // and nobody frees them
		return hidden.Free()
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range report.Leaks {
		fmt.Println(s.Kind, s.Purpose, s.Name, "leaks", s.BytesPerStep, "bytes a step")
	}
	// Output:
	// vram activations loss leaks 4096 bytes a step
}
