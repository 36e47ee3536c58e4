package loader

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// DecodePlace says where pictures are decoded.
type DecodePlace int

const (
	// DecodeAuto decodes JPEGs on the device where it has engines for that
	// (A100, H100, Ada and newer) and the dataset gives files
	// ([dataset.EncodedOf]) of samples of 3 channels of U8, and on the CPU
	// elsewhere. [Stats] says why.
	DecodeAuto DecodePlace = iota
	// DecodeCPU decodes in the workers. Damaged pictures are always noticed.
	DecodeCPU
	// DecodeGPU decodes JPEGs on the device, or fails. What the device does not
	// take (progressive JPEGs, CMYK, PNG and so on) workers decode. Pixels
	// differ from the CPU's by one step of a byte at most with engines, and
	// corrupt bits inside a picture go unnoticed. The first loader on a device
	// takes most of a second to make its decoder, which all of them share.
	DecodeGPU
)

// openDecoder prepares the device for decoding, if that is wanted and possible.
func (n *feeder) openDecoder() (err error) {
	l, o := n.loader, &n.loader.options
	switch {
	case o.Decode == DecodeCPU:
		n.notDecoding = "as asked"
		return nil
	case o.SampleTimeout > 0:
		err = fmt.Errorf("%w: SampleTimeout is for decoding in workers", device.ErrArgument)
	default:
		n.decoder, err = devdecode.Open(devdecode.Config{
			Device: n.dev, Compute: n.compute, Kernels: n.form.kernels,
			Dataset: l.encoded, Spec: l.layout.Samples.Spec, Engines: o.Decode == DecodeAuto,
		})
	}
	if err != nil && o.Decode == DecodeGPU {
		return fmt.Errorf("loader: decoding on %s: %w", n.dev.Info().ID, err)
	}
	if err != nil {
		n.notDecoding = err.Error()
	}
	return nil
}

// decode queues the decoding of j's pictures into d, where the device does
// that, and lays out what goes with the samples. What the device refuses is
// read by the CPU, and may be left out of j.
func (n *feeder) decode(d *deviceBuffer, j *read.Job) (t slab.Tail, err error) {
	l := n.loader
	for {
		t = l.layout.Tail(&j.Contents)
		if n.decoder == nil || len(j.Indexes) == 0 {
			return t, nil
		}
		start := time.Now()
		err := n.decoder.Queue(d.raw, &j.Contents, j.Files, t.Table)
		l.counters.deviceDecode.Add(int64(time.Since(start)))
		if !errors.Is(err, devdecode.ErrRefused) {
			return t, err
		}
		// What was queued reads the slab and its files, and writes d.
		if err := n.decoder.Synchronize(); err != nil {
			return t, err
		}
		if err := n.apart(func(r *read.Reader) error { return r.Decode(j) }); err != nil {
			return t, fmt.Errorf("loader: %w", err)
		}
		if err := n.settle(j); err != nil {
			return t, err
		}
	}
}
