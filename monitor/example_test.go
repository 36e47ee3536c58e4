package monitor_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

func Example() {
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
	engine, err := transfer.New(dev, transfer.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	before := monitor.Take()
	weights, err := pool.Alloc(context.Background(), 1<<20, vram.Use{Purpose: vram.Weights})
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.H2D(context.Background(), weights.Ptr(), make([]byte, 1<<20)); err != nil {
		log.Fatal(err)
	}
	d := monitor.Take().Since(before)
	for _, v := range d.VRAM {
		if v.Device == dev.Info().ID {
			for _, p := range v.Purposes {
				fmt.Println(p.Purpose, "has", p.RequestedBytes, "bytes")
			}
		}
	}
	for _, t := range d.Transfer {
		if t.Device == dev.Info().ID {
			for _, w := range t.Traffic {
				fmt.Println(w.Direction, "moved", w.Bytes, "bytes in", w.Copies, "copy")
			}
		}
	}
	// Output:
	// weights has 1048576 bytes
	// h2d moved 1048576 bytes in 1 copy
}

func ExampleMetricsHandler() {
	mux := http.NewServeMux()
	mux.Handle("/metrics", monitor.MetricsHandler())
	server := &http.Server{Addr: "127.0.0.1:9464", Handler: mux}
	go func() { log.Print(server.ListenAndServe()) }()
	defer server.Close()
}
