package loader

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/kernels"
)

// DecodePlace says where pictures are decoded.
type DecodePlace int

const (
	// DecodeAuto decodes JPEGs on the device where it has engines for that
	// (A100, H100, Ada and newer) and the dataset gives files
	// ([dataset.EncodedOf]), and on the CPU elsewhere. [Stats] says why.
	DecodeAuto DecodePlace = iota
	// DecodeCPU decodes in the workers. Damaged pictures are always noticed.
	DecodeCPU
	// DecodeGPU decodes JPEGs on the device, or fails. What the device does not
	// take (progressive JPEGs, CMYK, PNG and so on) workers decode. Pixels
	// differ from the CPU's by one step of a byte at most with engines, and
	// bits that went wrong inside of a picture go unnoticed.
	DecodeGPU
)

// jpegDecoder is what decodes JPEGs on a device.
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
	decoder   jpegDecoder
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
	c = &decoding{lane: n, transform: l.encoded.Transform()}
	c.limit.Store(mostRoom)
	if c.decoder, err = openDecoder(n.dev); err != nil {
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

// file is the encoded picture of a slot.
type file struct {
	content     []byte
	onDevice    bool // the device decodes it; else the slab has the sample
	jpeg        nvjpeg.JPEG
	orientation imaging.Orientation
	plan        imaging.Plan
	key         uint64
}

// keepFile is the largest buffer of a file that a slot keeps.
const keepFile = 4 << 20

// fetch reads the file of a slot and leaves it to the device, if that takes it.
func (r *reading) fetch(c *decoding, j *job, slot int, v dataset.Visit, sample []byte) error {
	f := &j.slab.files[slot]
	if cap(f.content) > keepFile {
		f.content = nil
	}
	f.onDevice, f.key = false, v.Key
	content, err := r.encoded.ReadFile(r.loader.ctx, v, f.content[:0])
	if err != nil {
		return err
	}
	f.content = content
	if f.jpeg, err = nvjpeg.Parse(content); err == nil && !j.refused && c.takes(f.jpeg, r.encoded.MaxPixels()) {
		f.orientation = r.encoded.Orientation(content)
		width, height := f.orientation.Size(f.jpeg.Width, f.jpeg.Height)
		f.plan = c.transform.Plan(width, height, v.Key)
		if f.onDevice = max(f.plan.X.Full, f.plan.Y.Full) <= maxScaled; f.onDevice {
			return nil
		}
	}
	return r.encoded.Decode(v, content, sample)
}

// maxScaled is the longest side that the device scales a picture to: a narrow
// one whose middle is taken may have a longer one.
const maxScaled = 65535

// takes reports whether the device decodes a picture. The CPU fails for those
// that are larger than the dataset allows.
func (c *decoding) takes(j nvjpeg.JPEG, maxPixels int) bool {
	return c.decoder.Supports(j.Header) && pixelBytes(j) <= c.limit.Load() &&
		int64(j.Width)*int64(j.Height) <= int64(maxPixels)
}

// pixelAlign keeps the pictures in scratch apart.
const pixelAlign = 256

func pixelBytes(j nvjpeg.JPEG) int64 {
	return (3*int64(j.Width)*int64(j.Height) + pixelAlign - 1) &^ (pixelAlign - 1)
}

// errRefused: some pictures were left to the CPU after all.
var errRefused = errors.New("refused by the device")

// queue queues the making of j's samples in the raw bytes of d: files are
// decoded, samples that workers made are copied, and all go through the
// resampling of the device. It fails with errRefused when pictures turn out to
// be none for the device; they are samples in the slab then, or errors of j.
func (c *decoding) queue(d *deviceBuffer, j *job, t tail) error {
	if err := c.makeRoom(j); err != nil {
		return err
	}
	refused := false
	c.sent = 0
	for from := 0; from < len(j.indexes); {
		to, err := c.group(d, j, t, from)
		if errors.Is(err, errRefused) {
			refused = true
		} else if err != nil {
			return err
		}
		from = to
	}
	if refused {
		return errRefused
	}
	return nil
}

// makeRoom grows the scratch for j, as far as it may.
func (c *decoding) makeRoom(j *job) error {
	var all int64
	for slot := range j.indexes {
		all += c.need(j, slot)
	}
	limit := c.limit.Load()
	if all <= c.room || c.room == limit {
		return nil
	}
	err := c.grow(min(limit, all+all/4))
	if errors.Is(err, device.ErrOutOfMemory) {
		err = nil
		c.limit.Store(c.room) // larger pictures are for the CPU from now on
	}
	return err
}

// need is the bytes of a slot's picture in scratch.
func (c *decoding) need(j *job, slot int) int64 {
	if f := &j.slab.files[slot]; f.onDevice {
		return pixelBytes(f.jpeg)
	}
	return c.sampleRoom()
}

// sampleRoom is the bytes of a sample in scratch.
func (c *decoding) sampleRoom() int64 {
	return (int64(c.transform.Bytes()) + pixelAlign - 1) &^ (pixelAlign - 1)
}

// group queues the slots from one on that fit into a scratch together, and
// returns the one behind them.
func (c *decoding) group(d *deviceBuffer, j *job, t tail, from int) (to int, err error) {
	s := &c.scratch[c.turn]
	c.turn ^= 1
	if err := c.stream.Wait(s.free); err != nil {
		return from, err
	}
	c.pictures, c.which = c.pictures[:0], c.which[:0]
	c.table.Reset()
	at := int64(0)
	for to = from; to < len(j.indexes); to++ {
		n := c.need(j, to)
		if at+n > c.room {
			if to > from {
				break
			}
			// Memory was short: not even this one fits.
			return from + 1, c.leave(j, from)
		}
		if err := c.place(j, to, s.pixels+device.Ptr(at)); err != nil {
			return from, err
		}
		at += n
	}
	if err := c.decode(j); err != nil {
		return to, err
	}
	return to, c.resample(s, d.raw+device.Ptr(from*c.transform.Bytes()), j.slab.bytes[t.table+from*kernels.PictureBytes:])
}

// place says where the picture of a slot goes, and what becomes of it there.
func (c *decoding) place(j *job, slot int, at device.Ptr) error {
	f := &j.slab.files[slot]
	if f.onDevice {
		c.sent += int64(len(f.content))
		p := nvjpeg.Picture{JPEG: f.jpeg, Dst: at, Pitch: 3 * f.jpeg.Width}
		c.pictures, c.which = append(c.pictures, p), append(c.which, slot)
		return c.table.Add(kernels.Picture{
			Src: at, Pitch: int64(p.Pitch), Width: f.jpeg.Width, Height: f.jpeg.Height,
			Orientation: int(f.orientation),
			X:           kernelAxis(f.plan.X), Y: kernelAxis(f.plan.Y),
			Mirror: f.plan.Mirror, Filter: kernels.Filter(f.plan.Filter),
		})
	}
	width, height := c.transform.Size()
	sample, _ := j.place(slot, c.lane.loader.rowBytes)
	c.sent += int64(len(sample))
	if err := c.stream.CopyH2D(at, sample); err != nil {
		return err
	}
	return c.table.Add(kernels.Picture{ // as it is
		Src: at, Pitch: int64(3 * width), Width: width, Height: height,
		X: kernels.Axis{Length: width, Out: width}, Y: kernels.Axis{Length: height, Out: height},
	})
}

func kernelAxis(a imaging.Axis) kernels.Axis {
	return kernels.Axis{Offset: a.Offset, Length: a.Length, Out: a.Full, First: a.First}
}

// decode decodes the pictures that were placed.
func (c *decoding) decode(j *job) error {
	if len(c.pictures) == 0 {
		return nil
	}
	err := c.decoder.Decode(c.stream, c.pictures)
	var refused *nvjpeg.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	for _, p := range refused.Pictures {
		if err := c.leave(j, c.which[p.Index]); !errors.Is(err, errRefused) {
			return err
		}
	}
	return errRefused
}

// leave lets the CPU decode the picture of a slot.
func (c *decoding) leave(j *job, slot int) error {
	r, f := &c.lane.reading, &j.slab.files[slot]
	f.onDevice = false
	if err := r.open(); err != nil {
		return err
	}
	sample, _ := j.place(slot, c.lane.loader.rowBytes)
	v := dataset.Visit{Index: j.indexes[slot], Key: f.key}
	if err := r.encoded.Decode(v, f.content, sample); err != nil {
		j.fail(slot, c.lane.loader.sampleError(j, v.Index, err))
	}
	return errRefused
}

// resample queues what makes samples at dst of the pictures in s. host is
// pinned memory for the table, which stays until the batch is done.
func (c *decoding) resample(s *scratch, dst device.Ptr, host []byte) error {
	n := c.lane
	if need := c.table.DeviceBytes(); need > s.tableBytes {
		fresh, err := n.dev.Alloc(need + need/2)
		if err != nil {
			return err
		}
		if s.table != 0 {
			// Free waits for what still uses it.
			if err := n.dev.Free(s.table); err != nil {
				return errors.Join(err, n.dev.Free(fresh))
			}
		}
		s.table, s.tableBytes = fresh, need+need/2
	}
	host = host[:copy(host, c.table.Bytes())]
	if err := c.stream.CopyH2D(s.table, host); err != nil {
		return err
	}
	if err := c.stream.Record(c.decoded); err != nil {
		return err
	}
	if err := n.compute.Wait(c.decoded); err != nil {
		return err
	}
	if err := n.form.kernels.Resample(n.compute, dst, c.table, s.table); err != nil {
		return err
	}
	return n.compute.Record(s.free)
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
