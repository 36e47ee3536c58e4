package loader

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// DecodePlace says where pictures are decoded.
type DecodePlace int

const (
	// DecodeAuto decodes JPEGs on the device if it has engines for that (A100,
	// H100, Ada and newer) and the dataset has files ([dataset.Encoded]) that
	// become samples of 3 channels of U8; otherwise on the CPU. [Stats] says why.
	DecodeAuto DecodePlace = iota
	// DecodeCPU decodes in the workers. Damaged pictures are always noticed.
	DecodeCPU
	// DecodeGPU decodes JPEGs on the device, or fails. Workers decode what the
	// device does not take: progressive JPEGs, CMYK, PNG and so on. With engines,
	// pixels differ from the CPU's by at most one step of a byte, and corrupt bits
	// inside a picture go unnoticed. All loaders of a device share its decoder;
	// the first takes most of a second to make it.
	DecodeGPU
)

// AutoShare, as [Options].CPUShare, has workers take pictures from the device as long as
// that gets the program its batches sooner: those that have nothing to read decode
// pictures of the batches that the device comes to last, while no batch waits to be
// delivered. A program that is slower than the device costs no processor time so, and
// an eighth of the processors is left alone.
//
// Batches and their order are the same; who decodes a picture is not, so between two
// runs a pixel may differ by a step of a byte, and damage be noticed or not: workers
// notice what [DecodeGPU] does not.
const AutoShare = -1

// openDecoder prepares the device for decoding, if asked for and possible.
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
			Dataset: l.encoded, Spec: l.layout.Samples.Spec, Engines: o.Decode == DecodeAuto, CPUShare: o.CPUShare,
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

// decode queues the decoding of j's pictures into d, if the device decodes, and
// lays out what goes with the samples. The CPU reads what the device refuses;
// samples that it cannot read may be left out of j.
func (n *feeder) decode(d *deviceBuffer, j *read.Job) (t slab.Tail, err error) {
	l := n.loader
	for {
		t = l.layout.Tail(&j.Contents)
		if n.decoder == nil || len(j.Indexes) == 0 {
			return t, nil
		}
		mark := probe.Begin(n.uploads, "decode on device")
		start := time.Now()
		err := n.decoder.Queue(d.raw, &j.Contents, j.Files, t.Table)
		end := time.Now()
		l.counters.deviceDecode.Add(int64(end.Sub(start)))
		mark.End(n.uploads, probe.Span{Name: "decode on device", Start: start, End: end, Batch: j.N + 1, Samples: len(j.Indexes)})
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
