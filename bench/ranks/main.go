// Command ranks measures training steps of several ranks, in the kinds of parallelism that
// there are: what ranks share, stages of a pipeline, and weights that ranks split. Ranks
// are goroutines, each with a GPU of its own, or all on the host. It prints a document in
// the peers' form (see bench/README.md).
//
//	go run ./bench/ranks --device cuda > ranks.json
//	go run ./bench/ranks --device host --ranks 2 --quick
//
// Kinds that are compared run in turn, and have to come to the same losses in their first
// steps: stages and what is split to those of a rank alone with all the samples, what is shared
// to those of ranks that share nothing. A step takes as long as its slowest rank. What is simulated says so: it is made of the measured times of tasks,
// and of how fast the ranks are together.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/parallel"
	parallelauto "github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/launch"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/parallel/nccl"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/timeline"
)

type options struct {
	device, only string
	trace        string
	ranks        int
	repeats      int
	micro        int // micro-batches of the pipeline
	bucket       int64
	model        models.GPT
	quick        bool
	noCopies     bool
}

func main() {
	o := options{model: models.GPT{Type: dtype.BF16, Optimizer: models.Adam, LearningRate: 1e-4}}
	flag.StringVar(&o.device, "device", "cuda", "where ranks are: cuda or host")
	flag.IntVar(&o.ranks, "ranks", 0, "number of ranks (default: one for each GPU, or 2 on the host)")
	flag.IntVar(&o.repeats, "repeats", 10, "timed steps of each kind")
	flag.IntVar(&o.micro, "micro", 8, "micro-batches of a step in stages")
	flag.IntVar(&o.model.Layers, "layers", 24, "layers of the GPT")
	flag.IntVar(&o.model.Width, "width", 2048, "width of a layer")
	flag.IntVar(&o.model.Heads, "heads", 16, "heads of attention")
	flag.IntVar(&o.model.Batch, "batch", 16, "sequences of a rank, and of a step in stages two for each micro-batch")
	flag.IntVar(&o.model.Length, "length", 1024, "tokens of a sequence")
	flag.IntVar(&o.model.Vocabulary, "vocabulary", 32768, "different tokens")
	flag.StringVar(&o.only, "only", "", "measure only share, stages or split, separated by commas")
	flag.StringVar(&o.trace, "trace", "", "write a timeline of everything to this file; the rest takes longer then")
	flag.BoolVar(&o.noCopies, "no-copies", false, "have processes sum up by NCCL alone, not by copy engines")
	flag.BoolVar(&o.quick, "quick", false, "small sizes, to see that everything works")
	flag.Parse()
	harness.Main("ranks", func(ctx context.Context, w io.Writer) error { return run(ctx, o, w) })
}

// run measures and prints the document.
func run(ctx context.Context, o options, w io.Writer) (err error) {
	if o.quick {
		o.repeats, o.micro, o.bucket = 2, 4, 8<<10
		o.model.Layers, o.model.Width, o.model.Heads, o.model.Batch, o.model.Length, o.model.Vocabulary = 2, 32, 2, 2, 8, 32
		o.model.Type = dtype.F32
	}
	if o.trace != "" {
		recording, err := timeline.Start(timeline.Options{Others: true})
		if err != nil {
			return err
		}
		defer func() {
			recording.Stop()
			err = joined(err, recording.WriteFile(o.trace))
		}()
	}
	world, err := launch.FromEnv()
	if err != nil {
		return err
	}
	if world.Size > 1 {
		return processes(ctx, o, world, w)
	}
	devices, comms, err := open(o)
	if err != nil {
		return err
	}
	b := &bench{options: o, ctx: ctx, size: len(comms), devices: devices, comms: comms,
		Document: harness.NewDocument[row](devices[0], "ranks", o.repeats)}
	for _, dev := range devices {
		exec, openErr := auto.Open(dev)
		if err = joined(err, openErr); openErr == nil {
			b.execs = append(b.execs, exec)
		}
	}
	if err == nil {
		err = b.measure()
	}
	for _, exec := range b.execs {
		err = joined(err, exec.Close())
	}
	for _, c := range comms {
		if err != nil {
			c.Abort(err)
		}
	}
	err = joined(err, onRanks(comms, func(c parallel.Comm) error { return c.Close() }))
	for i := len(devices) - 1; i >= 0; i-- {
		err = joined(err, devices[i].Close())
	}
	if err != nil {
		return err
	}
	return b.print(w)
}

// processes measures what the ranks share of which this process is one. The first one prints.
func processes(ctx context.Context, o options, world launch.World, w io.Writer) (err error) {
	if o.only != "share" {
		return errors.New("processes of a launcher measure --only share")
	}
	name := "host"
	if o.device == "cuda" {
		name = fmt.Sprintf("cuda:%d", world.LocalRank)
	}
	dev, err := device.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, dev.Close()) }()
	ranks, err := parallelauto.Open(ctx, dev, parallelauto.Options{World: &world, NoCopies: o.noCopies})
	if err != nil {
		return err
	}
	defer func() { err = joined(err, ranks.Close()) }()
	exec, err := auto.Open(dev)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, exec.Close()) }()
	b := &bench{options: o, ctx: ctx, size: world.Size, first: world.Rank, ranks: ranks, devices: []device.Device{dev}, comms: []parallel.Comm{ranks.Comm},
		execs: []step.Executor{exec}, Document: harness.NewDocument[row](dev, "ranks", o.repeats)}
	if err := ranks.Do("measuring", b.measure); err != nil {
		return err
	}
	if world.Rank > 0 {
		return nil
	}
	return b.print(w)
}

// open opens the devices and the communicators of ranks.
func open(o options) (devices []device.Device, comms []parallel.Comm, err error) {
	name := func(int) string { return "host" }
	if o.device == "cuda" {
		name = func(i int) string { return fmt.Sprintf("cuda:%d", i) }
	} else if o.device != "host" {
		return nil, nil, fmt.Errorf("--device is %q, and can be cuda or host", o.device)
	}
	if o.ranks == 0 && o.device == "host" {
		o.ranks = 2
	}
	for i := 0; o.ranks == 0 || i < o.ranks; i++ {
		dev, err := device.Open(name(i))
		if err != nil {
			if o.ranks == 0 && i > 0 {
				break
			}
			return nil, nil, err
		}
		if r := timeline.Current(); r != nil {
			dev = r.Wrap(dev)
		}
		devices = append(devices, dev)
	}
	if o.device == "host" {
		comms, err = local.New(devices...)
	} else {
		comms, err = nccl.Local(devices...)
	}
	return devices, comms, err
}

// note tells how far it is, on standard error.
func note(format string, args ...any) {
	fmt.Fprintln(os.Stderr, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
