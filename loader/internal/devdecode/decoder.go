package devdecode

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/kernels"
)

// JPEGDecoder is what decodes JPEGs on a device. Several goroutines may use it.
type JPEGDecoder interface {
	Supports(h nvjpeg.Header) bool
	Engines() int
	Decode(s device.Stream, pictures []nvjpeg.Picture) error
	Close() error
}

// OpenJPEG opens the decoder of a device. Tests have another one.
var OpenJPEG = func(dev device.Device) (JPEGDecoder, error) { return nvjpeg.Open(dev, nvjpeg.Options{}) }

// FirstRoom and MostRoom are the bytes of a scratch at first, and at most.
// Tests have others.
var (
	FirstRoom int64 = 64 << 20
	MostRoom  int64 = 1 << 30
)

// Decoder makes the samples of batches out of files, on a device. It belongs to
// one goroutine, but for [Files.Fetch].
type Decoder struct {
	dev       device.Device
	compute   device.Stream // resamples
	kernels   *kernels.Set
	transform imaging.Transform
	decoder   *sharedDecoder
	stream    device.Stream // of the decoder, which waits for it
	decoded   device.Event
	scratch   [2]scratch // one is resampled while the other is filled
	turn      int
	room      int64        // bytes of each scratch
	limit     atomic.Int64 // and at most
	cpuShare  float64
	table     *kernels.ResampleTable
	pictures  []nvjpeg.Picture
	slots     []int // of the pictures
	made      []made
	sent      int64 // bytes, for the last batch
}

// scratch is memory for decoded pictures and the table that says what becomes
// of them.
type scratch struct {
	pixels     device.Ptr
	table      device.Ptr
	tableBytes int64
	free       device.Event // recorded behind what reads it
}

// made is a sample that workers made, or are about to, and where it goes.
type made struct {
	slot int
	at   device.Ptr
}

// Config says what a [Decoder] works with.
type Config struct {
	Device   device.Device
	Compute  device.Stream // resamples; the samples are ready behind it
	Kernels  *kernels.Set
	Dataset  dataset.Encoded // nil where the dataset gives no files
	Spec     dataset.Spec    // of a sample
	Engines  bool            // fail on a device without JPEG engines
	CPUShare float64         // part of the pictures that is left to the caller all the same
}

// Open prepares a device for decoding. It fails with a reason to decode
// elsewhere where that is not possible.
func Open(o Config) (d *Decoder, err error) {
	if o.Dataset == nil {
		return nil, fmt.Errorf("%w: the dataset gives no files of pictures", device.ErrArgument)
	}
	if s := o.Spec; len(s.Shape) != 3 || s.Ragged || s.DType != dtype.U8 || s.Shape[2] != 3 {
		return nil, fmt.Errorf("%w: a device decodes to 3 channels of u8, and the samples are %v", device.ErrNotSupported, s)
	}
	if f := o.Dataset.Transform().Filter(); f == imaging.Nearest {
		return nil, fmt.Errorf("%w: a device does not resize by the filter %v", device.ErrNotSupported, f)
	}
	d = &Decoder{dev: o.Device, compute: o.Compute, kernels: o.Kernels, transform: o.Dataset.Transform(), cpuShare: o.CPUShare}
	d.limit.Store(MostRoom)
	if d.decoder, err = shared.open(d.dev); err != nil {
		return nil, err
	}
	if o.Engines && d.decoder.Engines() == 0 {
		return nil, errors.Join(fmt.Errorf("%w: the device has no JPEG engines", device.ErrNotSupported), d.Close())
	}
	if memory, err := d.dev.Memory(); err == nil {
		d.limit.Store(min(MostRoom, max(memory.TotalBytes/16, 1<<20)))
	}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Decoder) prepare() (err error) {
	if d.stream, err = d.dev.NewStream(); err != nil {
		return err
	}
	device.Label(d.stream, "loader decodes")
	if d.decoded, err = d.dev.NewEvent(device.EventNoTiming); err != nil {
		return err
	}
	for i := range d.scratch {
		if d.scratch[i].free, err = d.dev.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
	}
	if d.table, err = kernels.NewResampleTable(d.transform.Size()); err != nil {
		return err
	}
	// A sample that a worker made has to fit in any case.
	if d.sampleRoom() > d.limit.Load() {
		return fmt.Errorf("%w: samples of %d bytes, and memory for %d", device.ErrNotSupported, d.transform.Bytes(), d.limit.Load())
	}
	return d.grow(min(max(FirstRoom, d.sampleRoom()), d.limit.Load()))
}

// grow makes room for so many bytes of decoded pictures, if there is memory.
func (d *Decoder) grow(room int64) error {
	if err := d.compute.Synchronize(); err != nil {
		return err
	}
	var fresh [2]device.Ptr
	for i := range fresh {
		p, err := d.dev.Alloc(room)
		if err != nil {
			if i > 0 {
				err = errors.Join(err, d.dev.Free(fresh[0]))
			}
			return err
		}
		fresh[i] = p
	}
	var errs []error
	for i := range d.scratch {
		if old := d.scratch[i].pixels; old != 0 {
			errs = append(errs, d.dev.Free(old))
		}
		d.scratch[i].pixels = fresh[i]
	}
	d.room = room
	return errors.Join(errs...)
}

// Synchronize waits for what is queued on the decoder's stream and behind it.
func (d *Decoder) Synchronize() error {
	if err := d.stream.Synchronize(); err != nil {
		return err
	}
	return d.compute.Synchronize()
}

// SentBytes is how many bytes the last batch sent to the device: files, and
// samples that workers made.
func (d *Decoder) SentBytes() int64 { return d.sent }

// Close gives everything back. Nothing runs any more.
func (d *Decoder) Close() error {
	var errs []error
	if d.stream != nil {
		errs = append(errs, d.stream.Close())
	}
	errs = append(errs, d.decoder.Close())
	for _, s := range d.scratch {
		for _, p := range []device.Ptr{s.pixels, s.table} {
			if p != 0 {
				errs = append(errs, d.dev.Free(p))
			}
		}
		if s.free != nil {
			errs = append(errs, s.free.Close())
		}
	}
	if d.decoded != nil {
		errs = append(errs, d.decoded.Close())
	}
	return errors.Join(errs...)
}
