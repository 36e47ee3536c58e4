package tierbench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/vram"
)

// Pressure is a pool of device memory that is too small for what uses it: arrays of
// twice its size, touched at random, and plain allocations that push them out.
type Pressure struct {
	Arrays    int
	Bytes     int64 // of all arrays
	Touches   int   // of arrays: half of them wrote, half were checked
	Allocs    int   // plain allocations of the pool
	Failures  int   // calls that failed, and arrays with wrong content
	First     error // the first of them
	Reclaimed int64 // bytes that left the device for plain allocations
	Seconds   float64
}

// pressure runs the pool over.
func (b *bench) pressure(ctx context.Context) (p Pressure, err error) {
	pool, err := vram.New(b.dev, vram.Options{Budget: b.Budget})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	p.Bytes = 2 * b.Budget
	p.Arrays = int(p.Bytes / b.ArrayBytes)
	s, err := tier.New(b.dev, tier.Options{Pool: pool, HostBytes: p.Bytes + b.ArrayBytes})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fail := func(err error) {
		if err != nil {
			if p.Failures++; p.First == nil {
				p.First = err
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	arrays, values := make([]*tier.Array, p.Arrays), make([]byte, p.Arrays)
	write := func(i int) error {
		values[i]++
		l, err := s.Use(ctx, b.stream, tier.Overwrite(arrays[i]))
		if err != nil {
			return err
		}
		return errors.Join(b.stream.Memset(l.Ptr(arrays[i]), values[i], b.ArrayBytes), l.Release())
	}
	got := make([]byte, b.ArrayBytes)
	check := func(i int) error {
		l, err := s.Use(ctx, b.stream, tier.Read(arrays[i]))
		if err != nil {
			return err
		}
		err = errors.Join(b.stream.CopyD2H(got, l.Ptr(arrays[i])), b.stream.Synchronize(), l.Release())
		if err == nil && !bytes.Equal(got, bytes.Repeat([]byte{values[i]}, len(got))) {
			err = fmt.Errorf("array %d does not hold %d", i, values[i])
		}
		return err
	}
	start := time.Now()
	for i := range arrays {
		if arrays[i], err = s.NewArray(fmt.Sprintf(array, i), b.ArrayBytes); err != nil {
			return p, err
		}
		fail(write(i))
	}
	var others []vram.Block
	defer func() {
		for _, x := range others {
			err = errors.Join(err, x.Free())
		}
	}()
	for step := range 2 * p.Arrays {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		if step%4 == 0 {
			if len(others) < p.Arrays/8 {
				x, err := pool.Alloc(ctx, b.ArrayBytes, vram.Use{Stream: b.stream, Name: "other"})
				fail(err)
				if p.Allocs++; err == nil {
					others = append(others, x)
					fail(b.stream.Memset(x.Ptr(), 0xee, b.ArrayBytes))
				}
			} else {
				for _, x := range others {
					fail(x.Free())
				}
				others = nil
			}
		}
		p.Touches++
		if i := r.IntN(p.Arrays); step%2 == 0 {
			fail(write(i))
		} else {
			fail(check(i))
		}
	}
	p.Seconds = time.Since(start).Seconds()
	p.Reclaimed = s.Stats().ReclaimedBytes
	return p, nil
}
