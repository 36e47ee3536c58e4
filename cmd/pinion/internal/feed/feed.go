// Package feed runs a whole dataset through a loader and reports how it went:
// what `pinion feed` does. It stands in for a program whose work on each batch
// takes no time, so that the rate is the most the pipeline can give.
package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/transfer"
)

// Options say what to run.
type Options struct {
	Loader loader.Options

	// Checksum reads every batch back from the device and hashes the batches
	// in order.
	Checksum bool

	// Progress, if set, is called after each batch.
	Progress func(stats loader.Stats)
}

// Report is how a run went.
type Report struct {
	loader.Stats
	Prepared time.Duration // making the loader: memory, pinning, kernels
	Elapsed  time.Duration // from then until the last batch was used
	Epochs   []Epoch
	Checksum string // "sha256:…"; empty unless asked for
}

// Epoch is one pass and what was held when it ended.
type Epoch struct {
	Samples         int64
	Elapsed         time.Duration
	DeviceFreeBytes int64
	HostBytes       int64 // slabs
	HeapBytes       int64 // of the Go heap, live and not yet collected
}

// DeviceWaitFraction is the share of the time in which the device had no
// batch to work on.
func (r *Report) DeviceWaitFraction() float64 { return r.DeviceWait.Seconds() / r.Elapsed.Seconds() }

// Run feeds ds to dev. The error of a run that was cut short comes with the
// report of what was done until then.
func Run(ctx context.Context, dev device.Device, ds dataset.Dataset, o Options) (report *Report, err error) {
	begin := time.Now()
	ld, err := loader.New(dev, ds, o.Loader)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ld.Close()) }()

	r := &run{dev: dev, loader: ld, report: &Report{}}
	if o.Checksum {
		r.sum = sha256.New()
		if r.engine, err = transfer.New(dev, transfer.Options{}); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.engine.Close()) }()
	}
	start := time.Now()
	r.report.Prepared = start.Sub(begin)
	r.epochStart = start
	err = r.all(ctx, o.Progress)
	r.report.Elapsed = since(start)
	r.report.Stats = ld.Stats()
	if r.sum != nil && err == nil {
		r.report.Checksum = "sha256:" + hex.EncodeToString(r.sum.Sum(nil))
	}
	return r.report, err
}

type run struct {
	dev        device.Device
	loader     *loader.Loader
	report     *Report
	epoch      int
	samples    int64
	epochStart time.Time

	sum    hash.Hash
	engine *transfer.Engine
	back   []byte
}

func (r *run) all(ctx context.Context, progress func(loader.Stats)) error {
	for {
		b, err := r.loader.Next(ctx)
		if err == io.EOF {
			return r.endEpoch()
		}
		if err != nil {
			return err
		}
		if b.Epoch != r.epoch {
			if err := r.endEpoch(); err != nil {
				return err
			}
			r.epoch = b.Epoch
		}
		r.samples += int64(b.Shape[0])
		if err := r.use(ctx, b); err != nil {
			return err
		}
		if progress != nil {
			progress(r.loader.Stats())
		}
	}
}

// use is what is done with a batch.
func (r *run) use(ctx context.Context, b *loader.Batch) error {
	if r.sum != nil {
		if int64(cap(r.back)) < b.Bytes {
			r.back = make([]byte, b.Bytes)
		}
		r.back = r.back[:b.Bytes]
		if err := r.engine.D2H(ctx, r.back, b.Data); err != nil {
			return err
		}
		r.sum.Write(r.back)
	}
	return b.Release()
}

// endEpoch notes an epoch that delivered samples.
func (r *run) endEpoch() error {
	if r.samples == 0 {
		return nil
	}
	memory, err := r.dev.Memory()
	if err != nil {
		return err
	}
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	r.report.Epochs = append(r.report.Epochs, Epoch{
		Samples:         r.samples,
		Elapsed:         since(r.epochStart),
		DeviceFreeBytes: memory.FreeBytes,
		HostBytes:       r.loader.Stats().HostBytes,
		HeapBytes:       int64(heap.HeapAlloc),
	})
	r.samples, r.epochStart = 0, time.Now()
	return nil
}

// since is the time since start, never zero, so that rates are finite.
func since(start time.Time) time.Duration { return max(time.Since(start), 1) }
