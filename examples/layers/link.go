package main

import (
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
)

// link measures how many bytes of pinned memory a second go to the device, n at a time.
func link(dev device.Device, stream device.Stream, n int64) (rate float64, err error) {
	pool, err := pinned.NewPool(dev, pinned.Options{Budget: n + 8<<20, AllowPageable: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	host, err := pool.Alloc(context.Background(), n)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, host.Free()) }()
	ptr, err := dev.Alloc(n)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, dev.Free(ptr)) }()
	copies := int(max(4, 1<<30/n))
	for _, count := range []int{1, copies} { // the first one warms up
		start := time.Now()
		for range count {
			if err := stream.CopyH2D(ptr, host.Bytes()); err != nil {
				return 0, errors.Join(err, stream.Synchronize())
			}
		}
		if err := stream.Synchronize(); err != nil {
			return 0, err
		}
		rate = float64(count) * float64(n) / time.Since(start).Seconds()
	}
	return rate, nil
}
