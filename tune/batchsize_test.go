package tune

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
)

// ok ends the test if err is not nil.
var ok = testkit.OK

const capacity = 1 << 30

func open(t testing.TB) device.Device {
	t.Helper()
	dev, err := device.Open(fmt.Sprintf("host:%d", capacity))
	ok(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// growths are ways in which memory grows with the batch, each drawn from a
// seed; none shrinks.
var growths = map[string]func(*rand.Rand) func(n float64) float64{
	"linear": func(r *rand.Rand) func(float64) float64 {
		a, b := r.Float64()*0.5*capacity, math.Exp(r.Float64()*18)
		return func(n float64) float64 { return a + b*n }
	},
	"quadratic": func(r *rand.Rand) func(float64) float64 {
		a, b, c := r.Float64()*0.3*capacity, math.Exp(r.Float64()*12), math.Exp(r.Float64()*12)
		return func(n float64) float64 { return a + b*n + c*n*n }
	},
	"in chunks": func(r *rand.Rand) func(float64) float64 {
		b, chunk := math.Exp(8+r.Float64()*10), float64(int(2)<<(20+r.IntN(5)))
		return func(n float64) float64 { return math.Ceil(b*n/chunk) * chunk }
	},
	"slower": func(r *rand.Rand) func(float64) float64 {
		b := math.Exp(10 + r.Float64()*8)
		return func(n float64) float64 { return b * math.Sqrt(n) }
	},
	"a jump": func(r *rand.Rand) func(float64) float64 {
		b, at := math.Exp(8+r.Float64()*6), float64(1+r.IntN(500))
		return func(n float64) float64 {
			if n >= at {
				return b*n + 0.6*capacity
			}
			return b * n
		}
	},
	"constant": func(r *rand.Rand) func(float64) float64 {
		a := r.Float64() * 0.7 * capacity
		return func(float64) float64 { return a }
	},
}

// The result is the largest batch that fits, and few probes run out of memory.
func TestBatchSize(t *testing.T) {
	dev := open(t)
	for name, growth := range growths {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				r := rand.New(rand.NewPCG(seed, 7))
				bytes := growth(r)
				o := BatchOptions{Share: 0.5 + 0.4*r.Float64(), Max: 1 << r.IntN(21), Multiple: 1}
				if o.Max >= 8 && seed%3 == 0 {
					o.Multiple = 8
				}
				limit := o.Share * capacity
				want := 0
				low, high := 0, o.Max/o.Multiple+1
				for high-low > 1 {
					if n := (low + high) / 2; math.Floor(bytes(float64(n*o.Multiple))) <= math.Floor(limit) {
						low = n
					} else {
						high = n
					}
				}
				want = low * o.Multiple
				over := 0
				res, err := BatchSize(context.Background(), dev, func(_ context.Context, n int) (int64, error) {
					if n%o.Multiple != 0 || n < 1 || n > o.Max {
						t.Fatalf("a probe of %d", n)
					}
					if bytes(float64(n)) > capacity {
						over++
						return 0, fmt.Errorf("step: %w", device.ErrOutOfMemory)
					}
					return int64(bytes(float64(n))), nil
				}, o)
				if want == 0 {
					if !errors.Is(err, ErrDoesNotFit) {
						t.Errorf("seed %d: %v, %v, want %v", seed, res, err, ErrDoesNotFit)
					}
					continue
				}
				ok(t, err)
				if res.Batch != want || res.Bytes != int64(bytes(float64(want))) || res.LimitBytes != int64(limit) {
					t.Errorf("seed %d: a batch of %d in %d bytes, want %d", seed, res.Batch, res.Bytes, want)
				}
				if n := len(res.Probes); n > 60 {
					t.Errorf("seed %d: %d probes", seed, n)
				}
				if over > 0 && name == "linear" {
					t.Errorf("seed %d: %d probes ran out of memory", seed, over)
				}
			}
		})
	}
}

// For memory that grows in a line a handful of probes is enough, and the line
// is told.
func TestBatchSizeLine(t *testing.T) {
	res, err := BatchSize(context.Background(), open(t), func(_ context.Context, n int) (int64, error) {
		return 100<<20 + int64(n)*300_000, nil
	}, BatchOptions{})
	ok(t, err)
	if want := (0.8*capacity - 100<<20) / 300_000; res.Batch != int(want) || len(res.Probes) > 8 {
		t.Errorf("a batch of %d after %d probes, want %.0f", res.Batch, len(res.Probes), want)
	}
	if math.Abs(res.FixedBytes-100<<20) > 1 || math.Abs(res.SampleBytes-300_000) > 1e-3 {
		t.Errorf("%.0f + %.0f n", res.FixedBytes, res.SampleBytes)
	}
}

// Where memory runs out below the limit, because others have some of it, the
// line says nothing: the rest is bisected.
func TestBatchSizeBesideOthers(t *testing.T) {
	over := 0
	res, err := BatchSize(context.Background(), open(t), func(_ context.Context, n int) (int64, error) {
		if n > 643 {
			over++
			return 0, device.ErrOutOfMemory
		}
		return int64(n) << 16, nil
	}, BatchOptions{})
	ok(t, err)
	if res.Batch != 643 || over > 7 {
		t.Errorf("a batch of %d, %d of %d probes ran out of memory: %+v", res.Batch, over, len(res.Probes), res.Probes)
	}
}

// However large the largest is: few probes find the limit, or that there is none.
func TestBatchSizeLargest(t *testing.T) {
	for _, largest := range []int{math.MaxInt, math.MaxInt / 2, math.MaxInt / 16} {
		for name, c := range map[string]struct {
			bytes func(n int) int64
			want  int
		}{
			"limited": {func(n int) int64 { return int64(n) << 20 }, 512},
			"free":    {func(int) int64 { return 7 }, math.MaxInt / 16},
		} {
			probes := 0
			res, err := BatchSize(context.Background(), open(t), func(_ context.Context, n int) (int64, error) {
				if probes++; probes > 60 {
					return 0, errors.New("too many probes")
				}
				return c.bytes(n), nil
			}, BatchOptions{Share: 0.5, Max: largest})
			if err != nil || res.Batch != c.want {
				t.Errorf("%s, at most %d: %+v, %v, want %d", name, largest, res, err, c.want)
			}
		}
	}
}

func TestBatchSizeErrors(t *testing.T) {
	dev := open(t)
	broken := errors.New("broken")
	probes := 0
	_, err := BatchSize(context.Background(), dev, func(context.Context, int) (int64, error) {
		probes++
		return 0, broken
	}, BatchOptions{})
	if !errors.Is(err, broken) || probes != 1 {
		t.Errorf("%v after %d probes", err, probes)
	}
	_, err = BatchSize(context.Background(), dev, func(context.Context, int) (int64, error) {
		return 0, fmt.Errorf("%w: asked 7, free 3", device.ErrOutOfMemory)
	}, BatchOptions{})
	if !errors.Is(err, ErrDoesNotFit) || !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = BatchSize(ctx, dev, func(_ context.Context, n int) (int64, error) {
		cancel()
		return int64(n), nil
	}, BatchOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	for _, o := range []BatchOptions{{Share: -1}, {Share: 1.1}, {Share: math.NaN()}, {Max: -1}, {Multiple: -1}, {Max: 3, Multiple: 4}} {
		if _, err := BatchSize(ctx, dev, func(context.Context, int) (int64, error) { return 0, nil }, o); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// On a device with real allocations: by the pool's count, and by the device's.
func TestProbes(t *testing.T) {
	const sample = 1 << 20
	dev := open(t)
	pool, err := vram.New(dev, vram.Options{})
	ok(t, err)
	defer pool.Close()
	inPool := func(ctx context.Context, n int) error {
		b, err := pool.Alloc(ctx, int64(n)*sample, vram.Use{})
		if err != nil {
			return err
		}
		return b.Free()
	}
	var held device.Ptr
	plain := func(_ context.Context, n int) (err error) {
		if held != 0 {
			ok(t, dev.Free(held))
		}
		held, err = dev.Alloc(int64(n) * sample)
		return err
	}
	for name, c := range map[string]struct {
		probe Probe
		share float64
		want  int
	}{
		"pool":            {ProbePool(pool, dev, inPool), 0.5, 512},
		"pool, all of it": {ProbePool(pool, dev, inPool), 1, 1024},
		"device":          {ProbeDevice(dev, plain), 0.25, 256},
	} {
		if _, err := pool.Trim(); err != nil {
			t.Fatal(err)
		}
		if held != 0 {
			ok(t, dev.Free(held))
			held = 0
		}
		res, err := BatchSize(context.Background(), dev, c.probe, BatchOptions{Share: c.share})
		ok(t, err)
		if res.Batch != c.want {
			t.Errorf("%s: %+v, want %d", name, res, c.want)
		}
	}
	broken := errors.New("broken")
	for _, probe := range []Probe{
		ProbeDevice(dev, func(context.Context, int) error { return broken }),
		ProbePool(pool, dev, func(context.Context, int) error { return broken }),
	} {
		if _, err := probe(context.Background(), 1); !errors.Is(err, broken) {
			t.Errorf("%v, want %v", err, broken)
		}
	}
}
