package loader

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/kernels"
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
	// bits that went wrong inside of a picture go unnoticed. The first loader
	// on a device takes most of a second to make its decoder, which all share.
	DecodeGPU
)

// jpegDecoder is what decodes JPEGs on a device. Several goroutines may use it.
type jpegDecoder interface {
	Supports(h nvjpeg.Header) bool
	Engines() int
	Decode(s device.Stream, pictures []nvjpeg.Picture) error
	Close() error
}

// openDecoder is another one in tests.
var openDecoder = func(dev device.Device) (jpegDecoder, error) { return nvjpeg.Open(dev, nvjpeg.Options{}) }

// decoding makes the samples of a lane out of files, on its device. It belongs
// to the lane's goroutine, but for takes.
type decoding struct {
	lane      *lane
	transform imaging.Transform
	decoder   *sharedDecoder
	stream    device.Stream // of the decoder, which waits for it
	decoded   device.Event
	scratch   [2]scratch // one is resampled while the other is filled
	turn      int
	room      int64        // bytes of each scratch
	limit     atomic.Int64 // and at most
	table     *kernels.ResampleTable
	pictures  []nvjpeg.Picture
	which     []int // slots of the pictures
	sent      int64 // bytes sent to the device for the batch: files, and samples that workers made
}

// scratch is device memory for decoded pictures and the table that says what
// becomes of them.
type scratch struct {
	pixels     device.Ptr
	table      device.Ptr
	tableBytes int64
	free       device.Event // recorded behind what reads it
}

// Bytes of a scratch at first, and at most; tests have other ones.
var (
	firstRoom int64 = 64 << 20
	mostRoom  int64 = 1 << 30
)

// newDecoding prepares a device for decoding, if that is wanted and possible;
// why says what speaks against it.
func newDecoding(n *lane) (c *decoding, why string, err error) {
	l := n.loader
	if l.options.Decode == DecodeCPU {
		return nil, "as asked", nil
	}
	c, err = openDecoding(n)
	switch {
	case err == nil:
		return c, "", nil
	case l.options.Decode == DecodeGPU:
		return nil, "", fmt.Errorf("loader: decoding on %s: %w", n.dev.Info().ID, err)
	}
	return nil, err.Error(), nil
}

func openDecoding(n *lane) (c *decoding, err error) {
	l := n.loader
	if l.options.SampleTimeout > 0 {
		return nil, fmt.Errorf("%w: SampleTimeout is for decoding in workers", device.ErrArgument)
	}
	if l.encoded == nil {
		return nil, fmt.Errorf("%w: the dataset gives no files of pictures", device.ErrArgument)
	}
	if s := l.spec; !isImage(s) || s.DType != dtype.U8 || s.Shape[2] != 3 {
		return nil, fmt.Errorf("%w: a device decodes to 3 channels of u8, and the samples are %v", device.ErrNotSupported, s)
	}
	if f := l.encoded.Transform().Filter(); f == imaging.Nearest {
		return nil, fmt.Errorf("%w: a device does not resize by the filter %v", device.ErrNotSupported, f)
	}
	c = &decoding{lane: n, transform: l.encoded.Transform()}
	c.limit.Store(mostRoom)
	if c.decoder, err = shared.open(n.dev); err != nil {
		return nil, err
	}
	if l.options.Decode == DecodeAuto && c.decoder.Engines() == 0 {
		return nil, errors.Join(fmt.Errorf("%w: the device has no JPEG engines", device.ErrNotSupported), c.close())
	}
	if memory, err := n.dev.Memory(); err == nil {
		c.limit.Store(min(mostRoom, max(memory.TotalBytes/16, 1<<20)))
	}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *decoding) prepare() (err error) {
	dev := c.lane.dev
	if c.stream, err = dev.NewStream(); err != nil {
		return err
	}
	if c.decoded, err = dev.NewEvent(device.EventNoTiming); err != nil {
		return err
	}
	for i := range c.scratch {
		if c.scratch[i].free, err = dev.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
	}
	if c.table, err = kernels.NewResampleTable(c.transform.Size()); err != nil {
		return err
	}
	// A sample that a worker made has to fit in any case.
	if c.sampleRoom() > c.limit.Load() {
		return fmt.Errorf("%w: samples of %d bytes, and memory for %d", device.ErrNotSupported, c.transform.Bytes(), c.limit.Load())
	}
	return c.grow(min(max(firstRoom, c.sampleRoom()), c.limit.Load()))
}

// grow makes room for so many bytes of decoded pictures, if there is memory.
func (c *decoding) grow(room int64) error {
	if err := c.lane.compute.Synchronize(); err != nil {
		return err
	}
	var fresh [2]device.Ptr
	for i := range fresh {
		p, err := c.lane.dev.Alloc(room)
		if err != nil {
			if i > 0 {
				err = errors.Join(err, c.lane.dev.Free(fresh[0]))
			}
			return err
		}
		fresh[i] = p
	}
	var errs []error
	for i := range c.scratch {
		if old := c.scratch[i].pixels; old != 0 {
			errs = append(errs, c.lane.dev.Free(old))
		}
		c.scratch[i].pixels = fresh[i]
	}
	c.room = room
	return errors.Join(errs...)
}

// close gives everything back. Nothing runs any more.
func (c *decoding) close() error {
	var errs []error
	if c.stream != nil {
		errs = append(errs, c.stream.Close())
	}
	errs = append(errs, c.decoder.Close())
	for _, s := range c.scratch {
		for _, p := range []device.Ptr{s.pixels, s.table} {
			if p != 0 {
				errs = append(errs, c.lane.dev.Free(p))
			}
		}
		if s.free != nil {
			errs = append(errs, s.free.Close())
		}
	}
	if c.decoded != nil {
		errs = append(errs, c.decoded.Close())
	}
	return errors.Join(errs...)
}
