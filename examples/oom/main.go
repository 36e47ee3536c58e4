// Command oom runs out of device memory on purpose, to show what a pool reports
// then: where the memory is, who holds it, and what would have helped.
//
//	go run ./examples/oom
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/vram"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oom:", err)
		os.Exit(1)
	}
}

// run allocates what a small training step might, until the budget is used up.
func run(ctx context.Context, w io.Writer) (err error) {
	dev, err := device.Open("host:4GiB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pool, err := vram.New(dev, vram.Options{Budget: 1 << 30})
	if err != nil {
		return err
	}
	defer func() {
		var leaked *vram.LeakError
		if closed := pool.Close(); !errors.As(closed, &leaked) { // what is allocated here is not freed
			err = errors.Join(err, closed)
		}
	}()
	for layer := range 24 {
		for _, use := range []struct {
			bytes   int64
			purpose vram.Purpose
		}{{12 << 20, vram.Weights}, {12 << 20, vram.Gradients}, {36 << 20, vram.Activations}} {
			_, err := pool.Alloc(ctx, use.bytes, vram.Use{Purpose: use.purpose, Name: fmt.Sprint("layer ", layer)})
			var short *vram.OutOfMemoryError
			if errors.As(err, &short) {
				fmt.Fprint(w, short.Report())
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return errors.New("the budget was enough")
}
