// Layers runs a network whose weights are larger than a budget of device memory: a
// chain of matrix products, forward through all layers again and again.
//
// The weights lie in pinned host memory once. tier.Stream keeps on the device what
// fits into the budget, and brings in the other layers while those before them
// compute. The example prints how fast that went: the weights used a second, the share
// of the copying that was hidden behind computing, and the floor, which is the larger
// of computing and of moving the weights that do not fit over the link.
//
// Each layer is a permutation, so the result is known exactly.
//
//	go run ./examples/layers
//	go run ./examples/layers -device cuda:0 -layers 256 -width 4096 -batch 64 -budget 4GiB
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/auto"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tier"
)

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.device, "device", "host", "device to compute on")
	flag.Int64Var(&o.layers, "layers", 24, "layers")
	flag.Int64Var(&o.width, "width", 256, "rows and columns of a layer")
	flag.Int64Var(&o.batch, "batch", 16, "rows of the input")
	flag.IntVar(&o.rounds, "rounds", 3, "times through all layers")
	budget := flag.String("budget", "", "device memory for weights (default: a quarter of them)")
	flag.Parse()
	if *budget != "" {
		var err error
		if o.budget, err = units.ParseBytes(*budget); err != nil {
			log.Fatal(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	device                       string
	layers, width, batch, budget int64
	rounds                       int
}

func run(ctx context.Context, o options) (err error) {
	if o.layers < 1 || o.width < 1 || o.width > 1<<16 || o.batch < 1 || o.batch > 1<<16 || o.rounds < 1 {
		return fmt.Errorf("%d layers of width %d, a batch of %d, %d rounds", o.layers, o.width, o.batch, o.rounds)
	}
	layerBytes, inputBytes := o.width*o.width*4, o.batch*o.width*4
	model := o.layers * layerBytes
	if o.budget == 0 {
		o.budget = model / 4
	}
	dev, err := device.Open(o.device)
	if err != nil {
		return err
	}
	defer dev.Close()
	multiply, err := auto.Open(dev)
	if err != nil {
		return err
	}
	defer multiply.Close()
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	store, err := tier.New(dev, tier.Options{DeviceBytes: o.budget + 4*inputBytes, HostBytes: model + layerBytes + 4*inputBytes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	// Layer i moves column c to c+i+1.
	layer, shift := make([]float32, o.width*o.width), int64(0)
	var weights []*tier.Array
	for i := range o.layers {
		a, err := store.NewArray(fmt.Sprintf("layer %d", i), layerBytes)
		if err != nil {
			return err
		}
		clear(layer)
		for c := range o.width {
			layer[c*o.width+(c+i+1)%o.width] = 1
		}
		shift += i + 1
		if err := a.WriteAt(ctx, bytesOf(layer), 0); err != nil {
			return err
		}
		weights = append(weights, a)
	}
	input := make([]float32, o.batch*o.width)
	for i := range input {
		input[i] = float32(i % 1024)
	}
	var states [2]*tier.Array
	for i := range states {
		if states[i], err = store.NewArray(fmt.Sprintf("state %d", i), inputBytes); err != nil {
			return err
		}
	}
	if err := states[0].WriteAt(ctx, bytesOf(input), 0); err != nil {
		return err
	}

	var steps []tier.Step
	for i, w := range weights {
		in, out := states[i%2], states[(i+1)%2]
		steps = append(steps, tier.Step{
			Name: w.Name(), Use: []tier.Access{tier.Read(w), tier.Read(in), tier.Overwrite(out)},
			Run: func(s device.Stream, l *tier.Lease) error {
				return multiply.Gemm(s, blas.Gemm{M: o.batch, N: o.width, K: o.width, Alpha: 1, Type: dtype.F32, TF32: true,
					A: blas.Matrix{Ptr: l.Ptr(in)}, B: blas.Matrix{Ptr: l.Ptr(w)}, C: blas.Matrix{Ptr: l.Ptr(out)}})
			},
		})
	}
	network, err := store.NewStream(steps...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()

	// The first round brings everything in for the first time, and checks it.
	if _, err := network.Run(ctx, stream, 1); err != nil {
		return err
	}
	last := states[o.layers%2]
	output := make([]float32, len(input))
	if err := last.ReadAt(ctx, bytesOf(output), 0); err != nil {
		return err
	}
	for i := range o.batch {
		for c := range o.width {
			if got, want := output[i*o.width+(c+shift)%o.width], input[i*o.width+c]; got != want {
				return fmt.Errorf("row %d, column %d: %g, want %g", i, c, got, want)
			}
		}
	}

	rate, err := link(dev, stream, layerBytes)
	if err != nil {
		return err
	}
	r, err := network.Run(ctx, stream, o.rounds)
	if err != nil {
		return err
	}
	floor := network.Floor(r, o.budget, rate)
	fmt.Printf("%s on %s, %s\n", units.Count(o.layers, "layer"), dev.Info().ID, multiply.Library())
	fmt.Printf("weights %s, budget %s, batch %d; the link carries %s\n", units.Bytes(model), units.Bytes(o.budget), o.batch, units.Rate(rate))
	fmt.Printf("a round takes %s, of which computing %s; floor %s: %s of it\n", each(r.Time, o.rounds), each(r.Compute, o.rounds),
		each(floor, o.rounds), units.Percent(r.Time.Seconds()/floor.Seconds()))
	fmt.Printf("weights used %s, brought in %s a round, %s of the copying hidden\n", units.Rate(r.Rate()),
		units.Bytes(r.Filled/int64(o.rounds)), units.Percent(r.Hidden(rate)))
	return nil
}

func each(d time.Duration, n int) string { return units.Duration(d / time.Duration(n)) }

func bytesOf(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
