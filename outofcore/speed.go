package outofcore

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// Speed is how fast a device multiplies tiles. [Runner] measures it, once for
// each type.
type Speed struct {
	// FlopRate is the floating-point operations a second of products of
	// side x side, with side = 128, 256, … 8192. Small ones leave
	// multiprocessors idle. 0: not measured; the nearest smaller side counts.
	FlopRate [speedSides]float64

	// AddSeconds is what it takes, for each byte of C, to add a product to
	// what is there already.
	AddSeconds float64
}

const (
	leastSpeedSide = 128
	speedSides     = 7
	mostSpeedSide  = leastSpeedSide << (speedSides - 1)
)

// Most is the highest rate; 0 where none was measured.
func (s *Speed) Most() float64 {
	most := 0.0
	for _, rate := range s.FlopRate {
		most = max(most, rate)
	}
	return most
}

// at is the rate of products of that side: between two measured sides on a
// line over the logarithm.
func (s *Speed) at(side int64) float64 {
	last := -1
	for i, rate := range s.FlopRate {
		if rate == 0 {
			break
		}
		last = i
	}
	switch {
	case last < 0:
		return assumedFlops
	case side <= leastSpeedSide:
		// The multiprocessors are idle or not, whatever the tile does.
		return s.FlopRate[0] * max(float64(side), 1) / leastSpeedSide
	}
	octave := math.Log2(float64(side) / leastSpeedSide)
	i := int(octave)
	if i >= last {
		return s.FlopRate[last]
	}
	part := octave - float64(i)
	return s.FlopRate[i]*(1-part) + s.FlopRate[i+1]*part
}

// speed measures, with at most so much device memory, on numbers that are
// random: on zeros a device draws less power, and is faster.
func (r *Runner) speed(ctx context.Context, b blas.BLAS, t dtype.DType, tf32 bool, budget int64) (speed Speed, err error) {
	key := speedKey{t, tf32}
	r.mu.Lock()
	speed, ok := r.speeds[key]
	r.mu.Unlock()
	if ok {
		return speed, nil
	}
	workspace, size := b.WorkspaceBytes(), int64(t.Size())
	depthOf := func(side int64) int64 { return min(4*side, mostSpeedSide) }
	factor := func(side int64) int64 { return side * depthOf(side) * size }
	side := int64(mostSpeedSide)
	for side >= leastSpeedSide && 2*factor(side)+side*side*4+workspace > budget {
		side /= 2
	}
	if side < leastSpeedSide {
		return Speed{}, nil
	}
	n := factor(side)
	at, free, err := r.alloc(ctx, 2*n+side*side*4+workspace)
	if err != nil {
		return speed, err
	}
	defer func() { err = errors.Join(err, free()) }()
	s, err := r.dev.NewStream()
	if err != nil {
		return speed, err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // waits, before the memory goes
	if err := scatter(s, at, 2*n, t); err != nil {
		return speed, err
	}
	const (
		several = 3
		enough  = 4 * time.Millisecond // of one product: larger ones are not measured
	)
	took := func(g blas.Gemm) (time.Duration, error) {
		var took time.Duration
		for _, products := range []int{1, several} { // the first one warms up
			began := time.Now()
			for range products {
				if err := errors.Join(b.Gemm(s, g), ctx.Err()); err != nil {
					return 0, err
				}
			}
			if err := s.Synchronize(); err != nil {
				return 0, err
			}
			took = time.Since(began) / time.Duration(products)
		}
		return took, nil
	}
	for i := range speed.FlopRate {
		now := int64(leastSpeedSide) << i
		if now > side {
			break
		}
		g := blas.Gemm{M: now, N: now, K: depthOf(now), Alpha: 1, Type: t, TF32: tf32,
			A: blas.Matrix{Ptr: at}, B: blas.Matrix{Ptr: at.Add(n)}, C: blas.Matrix{Ptr: at.Add(2 * n)}, TypeC: dtype.F32,
			Workspace: at.Add(2*n + side*side*4), WorkspaceBytes: workspace}
		alone, err := took(g)
		if err != nil {
			return speed, err
		}
		g.Beta = 1
		added, err := took(g)
		if err != nil {
			return speed, err
		}
		speed.FlopRate[i] = 2 * float64(now*now*g.K) / alone.Seconds()
		speed.AddSeconds = max(added-alone, 0).Seconds() / float64(now*now*4)
		if alone > enough {
			break
		}
	}
	r.mu.Lock()
	r.speeds[key] = speed
	r.mu.Unlock()
	return speed, nil
}

// scatter fills memory with random numbers between 1 and 2 of either sign.
func scatter(s device.Stream, at device.Ptr, n int64, t dtype.DType) error {
	const piece = 1 << 20
	random := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, min(n, piece))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	size := t.Size()
	for i := size - 1; i < len(b); i += size { // the sign, and the exponent of 1
		b[i] = b[i]&0x80 | 0x3f
		b[i-1] |= 0x80
	}
	if err := s.CopyH2D(at, b); err != nil {
		return err
	}
	for have := int64(len(b)); have < n; have *= 2 {
		if err := s.CopyD2D(at.Add(have), at, min(have, n-have)); err != nil {
			return err
		}
	}
	return s.Synchronize()
}
