// Package feed runs a whole dataset through a loader and reports how it went:
// what `pinion feed` does. It stands in for a program whose work on each batch
// takes no time, so that the rate is the most the pipeline can give.
package feed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader"
)

// Options say what to run.
type Options struct {
	Loader loader.Options

	// Checksum reads every batch and its targets back from the device and hashes
	// them one after the other. Digests, if set, gets a [Digest] of each of them,
	// a line of JSON.
	Checksum bool
	Digests  io.Writer

	// StopAfter is the number of batches to stop after; 0: the end of the run.
	StopAfter int

	// Progress, if set, is called after each batch, with the batches done and
	// those of the whole run.
	Progress func(stats loader.Stats, done, total int)
}

// Digest tells what a batch was.
type Digest struct {
	Epoch   int    `json:"epoch"`
	Batch   int    `json:"batch"` // number within the epoch
	Samples []int  `json:"samples"`
	SHA256  string `json:"sha256"` // of the batch and its targets as read back from the device
}

// Report is how a run went.
type Report struct {
	loader.Stats
	Prepared time.Duration // making the loader: memory, pinning, kernels
	Elapsed  time.Duration // from then until the last batch was used
	Epochs   []Epoch
	Checksum string // "sha256:…"; empty unless asked for

	// State is where the run is: after the last batch that was used.
	State loader.State
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

	r := &run{Options: o, dev: dev, loader: ld, report: &Report{State: ld.State()}}
	r.epoch = r.report.State.Epoch
	if o.Checksum {
		r.sum = sha256.New()
	}
	start := time.Now()
	r.report.Prepared = start.Sub(begin)
	r.epochStart = start
	err = r.all(ctx)
	r.report.Elapsed = since(start)
	r.report.Stats = ld.Stats()
	if most := r.largest; most > 0 && most < r.report.Shape[0] { // a stream that ended before
		r.report.Shape = slices.Concat([]int{most}, r.report.Shape[1:])
	}
	if r.sum != nil && err == nil {
		r.report.Checksum = "sha256:" + hex.EncodeToString(r.sum.Sum(nil))
	}
	return r.report, err
}

type run struct {
	Options
	dev        device.Device
	loader     *loader.Loader
	report     *Report
	epoch      int
	samples    int64
	largest    int // samples of the largest batch
	epochStart time.Time

	sum  hash.Hash
	back []byte
}

func (r *run) all(ctx context.Context) error {
	for n := 1; ; n++ {
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
		r.largest = max(r.largest, b.Shape[0])
		if err := r.use(ctx, b); err != nil {
			return err
		}
		r.report.State = r.loader.State()
		if r.Options.Progress != nil {
			done, total := r.loader.Progress()
			r.Options.Progress(r.loader.Stats(), done, total)
		}
		if n == r.StopAfter {
			return r.endEpoch()
		}
	}
}

// use is what is done with a batch.
func (r *run) use(ctx context.Context, b *loader.Batch) error {
	if r.Checksum || r.Digests != nil {
		if err := r.readBack(ctx, b); err != nil {
			return err
		}
		if err := r.note(b); err != nil {
			return err
		}
	}
	return b.Release()
}

// readBack reads the samples of a batch and its targets.
func (r *run) readBack(ctx context.Context, b *loader.Batch) error {
	r.back = slices.Grow(r.back[:0], int(b.Bytes))[:b.Bytes]
	if err := b.Read(ctx, r.back); err != nil {
		return err
	}
	for k, t := range b.Targets {
		n := len(r.back)
		r.back = slices.Grow(r.back, int(t.Bytes))[:n+int(t.Bytes)]
		if err := b.ReadTarget(ctx, k, r.back[n:]); err != nil {
			return err
		}
	}
	return nil
}

// note hashes a batch that was read back.
func (r *run) note(b *loader.Batch) error {
	if r.sum != nil {
		r.sum.Write(r.back)
	}
	if r.Digests == nil {
		return nil
	}
	sum := sha256.Sum256(r.back)
	line, err := json.Marshal(Digest{b.Epoch, b.Number, b.Indexes, hex.EncodeToString(sum[:])})
	if err != nil {
		return err
	}
	_, err = r.Digests.Write(append(line, '\n'))
	return err
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
