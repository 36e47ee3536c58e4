// Command leak runs a loop that leaves device memory and goroutines behind, beside a
// cache that only fills, to show how monitor.Track tells them apart.
//
//	go run ./examples/leak
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/vram"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		os.Exit(1)
	}
}

// server answers requests with a model on a device.
type server struct {
	pool     *vram.Pool
	prefixes map[int]vram.Block // a cache of 50
	losses   []vram.Block       // for a report that nobody asks for
	quit     chan struct{}
}

func run(ctx context.Context, w io.Writer) (err error) {
	dev, err := device.Open("host:4GiB")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pool, err := vram.New(dev, vram.Options{})
	if err != nil {
		return err
	}
	s := &server{pool: pool, prefixes: map[int]vram.Block{}, quit: make(chan struct{})}
	defer func() {
		close(s.quit)
		var leaked *vram.LeakError
		if closed := pool.Close(); !errors.As(closed, &leaked) { // the report names them
			err = errors.Join(err, closed)
		}
	}()
	request := 0
	report, err := monitor.Track(1000, func() error {
		request++
		return s.answer(ctx, request)
	})
	fmt.Fprint(w, report)
	return err
}

func (s *server) answer(ctx context.Context, request int) error {
	if prefix := request % 50; s.prefixes[prefix] == (vram.Block{}) {
		b, err := s.pool.Alloc(ctx, 8<<20, vram.Use{Purpose: vram.KVCache, Name: fmt.Sprint("prefix ", prefix)})
		if err != nil {
			return err
		}
		s.prefixes[prefix] = b
	}
	hidden, err := s.pool.Alloc(ctx, 1<<20, vram.Use{Purpose: vram.Activations, Name: "hidden"})
	if err != nil {
		return err
	}
	if err := s.score(ctx); err != nil {
		return err
	}
	if request%4 == 0 {
		s.watch()
	}
	return hidden.Free()
}

// score keeps a number of each request on the device.
func (s *server) score(ctx context.Context) error {
	loss, err := s.pool.Alloc(ctx, 4, vram.Use{Purpose: vram.Activations, Name: "loss"})
	s.losses = append(s.losses, loss)
	return err
}

// watch waits for the end of a request that nobody tells it.
func (s *server) watch() {
	go func() { <-s.quit }()
}
