package vram_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/vram"
)

func Example() {
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	pool, err := vram.New(dev, vram.Options{Limits: map[vram.Purpose]int64{vram.Activations: 256 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	ctx := context.Background()
	weights, err := pool.Alloc(ctx, 100_000, vram.Use{Purpose: vram.Weights})
	if err != nil {
		log.Fatal(err)
	}
	defer weights.Free()
	for step := range 3 {
		block, err := pool.Alloc(ctx, 1_000_000, vram.Use{Stream: stream, Purpose: vram.Activations, Name: "layer 3"})
		if err != nil {
			log.Fatal(err)
		}
		if err := stream.Memset(block.Ptr(), byte(step), block.Bytes()); err != nil {
			log.Fatal(err)
		}
		if err := block.Free(); err != nil { // the stream may still write it
			log.Fatal(err)
		}
	}
	stats := pool.Stats()
	fmt.Println("requested:", stats.Requested.Current, "in all", stats.Requested.Allocated)
	fmt.Println("activations in all:", stats.Purposes[vram.Activations].Requested.Allocated)
	fmt.Println("allocations:", stats.Blocks.Allocated)
	// Output:
	// requested: 100000 in all 3100000
	// activations in all: 3000000
	// allocations: 4
}

// A block of one stream is read by another.
func ExampleBlock_RecordStream() {
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	compute, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	copies, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	written, err := dev.NewEvent(0)
	if err != nil {
		log.Fatal(err)
	}
	pool, err := vram.New(dev, vram.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	block, err := pool.Alloc(context.Background(), 4, vram.Use{Stream: compute})
	if err != nil {
		log.Fatal(err)
	}
	result := make([]byte, 4)
	err = errors.Join(
		compute.Memset(block.Ptr(), 7, 4),
		compute.Record(written),
		copies.Wait(written),
		copies.CopyD2H(result, block.Ptr()),
		block.RecordStream(copies), // without it, compute could write here again before the copy
		block.Free(),
		copies.Synchronize(),
	)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	// Output: [7 7 7 7]
}

// A cache gives up its oldest entry when memory is short.
func ExamplePool_OnLowMemory() {
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{Budget: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	var cache []vram.Block // a cache for many goroutines needs a lock
	remove := pool.OnLowMemory(func(_ context.Context, need int64) (freed int64, err error) {
		for freed < need && len(cache) > 0 {
			freed += cache[0].Bytes()
			if err := cache[0].Free(); err != nil {
				return 0, err
			}
			cache = cache[1:]
		}
		return freed, nil
	})
	defer remove()

	for range 6 {
		block, err := pool.Alloc(context.Background(), 15<<20, vram.Use{Purpose: vram.KVCache})
		if err != nil {
			log.Fatal(err)
		}
		cache = append(cache, block)
	}
	fmt.Println("in the cache:", len(cache))
	fmt.Println("was short of memory:", pool.Stats().Retries > 0)
	for _, block := range cache {
		block.Free()
	}
	// Output:
	// in the cache: 4
	// was short of memory: true
}

// What is still live when the pool is closed is an error that names it.
func ExampleLeakError() {
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{}) // with Stacks, it also says from where
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Alloc(context.Background(), 4096, vram.Use{Purpose: vram.Activations, Name: "layer 3"}); err != nil {
		log.Fatal(err)
	}
	var leaks *vram.LeakError
	if errors.As(pool.Close(), &leaks) { // its Error lists the largest, and since when they are live
		for _, leak := range leaks.Leaks {
			fmt.Println(leak.Requested, "bytes of", leak.Purpose, leak.Name)
		}
	}
	// Output: 4096 bytes of activations layer 3
}

// An allocation that fails says what would have helped.
func ExampleOutOfMemoryError() {
	dev, err := host.Open(1 << 30)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{Limits: map[vram.Purpose]int64{vram.Activations: 64 << 20}})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	_, err = pool.Alloc(context.Background(), 100<<20, vram.Use{Purpose: vram.Activations})

	fmt.Println(errors.Is(err, vram.ErrLimit))
	var short *vram.OutOfMemoryError
	if errors.As(err, &short) {
		for _, sentence := range short.Advice { // short.Report() is the whole story
			fmt.Println(sentence)
		}
	}
	// Output:
	// true
	// The limit of activations is 64 MiB and 0 B is allocated: the 100 MiB asked for is 36 MiB too much. Raise Options.Limits, or use a smaller batch, checkpoint (recompute) some, or spill them.
}
