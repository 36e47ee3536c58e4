package nvjpeg

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// Picture is a JPEG and where its pixels go in device memory.
type Picture struct {
	JPEG JPEG
	// Dst is where the first row begins: HWC, red, green and blue bytes.
	Dst device.Ptr
	// Pitch is the bytes from the start of a row to that of the next, at least
	// 3 x the width. The decoder leaves what lies between the rows alone.
	Pitch int
}

// Decode decodes pictures on stream s. Pixels are there for work that is
// queued on s behind it; their files must not change, nor become garbage,
// until s is past it. It blocks for most of the time that the device works,
// and on the engines first until s has done its earlier work, because the
// engines write without regard to what a stream still has to do.
//
// Pictures that the decoder does not take, or that turn out to be bad, do no
// harm to the others: the error then is a [*RefusedError] that names them, and
// their pixels are undefined. After any other error those of all pictures are.
func (d *Decoder) Decode(s device.Stream, pictures []Picture) error {
	if s == nil || !device.Same(s.Device(), d.gpu.Device) {
		return fmt.Errorf("nvjpeg: %w: the stream belongs to another device", device.ErrArgument)
	}
	// Before the lock: a stream that has long to do must not hold up those of
	// other callers.
	if d.engines > 0 {
		if err := s.Synchronize(); err != nil {
			return fmt.Errorf("nvjpeg: earlier work of the stream: %w", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	refused, err := d.choose(pictures)
	if err != nil {
		return err
	}
	for which := range slices.Chunk(d.able, d.options.MaxBatch) {
		err := d.decode(s, pictures, which)
		if ofPicture(err) {
			refused, err = d.decodeSingly(s, pictures, which, refused)
		}
		if err != nil {
			return err
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.SortFunc(refused, func(a, b Refusal) int { return a.Index - b.Index })
	return &RefusedError{Pictures: refused}
}

// choose lists in able the pictures that the decoder takes, and returns why it
// refuses the others.
func (d *Decoder) choose(pictures []Picture) (refused []Refusal, err error) {
	d.able = d.able[:0]
	for i := range pictures {
		p := &pictures[i]
		width, height := int64(p.JPEG.Width), int64(p.JPEG.Height)
		if err := d.refuses(p.JPEG.Header); err != nil {
			refused = append(refused, Refusal{i, err})
			continue
		}
		if int64(p.Pitch) < 3*width || int64(p.Pitch) > math.MaxInt32 {
			return nil, fmt.Errorf("nvjpeg: %w: picture %d of %dx%d pixels with a pitch of %d bytes",
				device.ErrArgument, i, width, height, p.Pitch)
		}
		// A wrong address could make the device unusable.
		if err := d.gpu.CheckRange(p.Dst, int64(p.Pitch)*(height-1)+3*width); err != nil {
			return nil, fmt.Errorf("nvjpeg: picture %d of %dx%d pixels with a pitch of %d bytes: %w",
				i, width, height, p.Pitch, err)
		}
		d.able = append(d.able, i)
	}
	return refused, nil
}

// decodeSingly finds out which of the pictures is bad, and decodes the rest.
func (d *Decoder) decodeSingly(s device.Stream, pictures []Picture, which []int, refused []Refusal) ([]Refusal, error) {
	for i := range which {
		err := d.decode(s, pictures, which[i:i+1])
		if ofPicture(err) {
			refused = append(refused, Refusal{which[i], fmt.Errorf("JPEG of %dx%d pixels: %w",
				pictures[which[i]].JPEG.Width, pictures[which[i]].JPEG.Height, err)})
		} else if err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// decode gives some of the pictures to the library.
func (d *Decoder) decode(s device.Stream, pictures []Picture, which []int) error {
	// The library's buffers belong to one batch at a time.
	if err := d.done.Synchronize(); err != nil {
		return fmt.Errorf("nvjpeg: the batch before: %w", err)
	}
	b := &d.batch
	b.data, b.lengths, b.images = b.data[:0], b.lengths[:0], b.images[:0]
	defer func() { clear(b.data) }()
	for _, i := range which {
		p := &pictures[i]
		b.data = append(b.data, unsafe.SliceData(p.JPEG.data))
		b.lengths = append(b.lengths, uintptr(len(p.JPEG.data)))
		b.images = append(b.images, nvImage{
			channel: [4]device.Ptr{p.Dst},
			pitch:   [4]uintptr{uintptr(p.Pitch)},
		})
	}
	err := d.gpu.WithStream(s, func(stream uintptr) error {
		if err := d.initialise(len(which)); err != nil {
			return err
		}
		return check("nvjpegDecodeBatched", api.decodeBatched.Call(d.handle, d.state,
			uintptr(unsafe.Pointer(&b.data[0])), uintptr(unsafe.Pointer(&b.lengths[0])),
			uintptr(unsafe.Pointer(&b.images[0])), stream))
	})
	if err != nil {
		d.initialised = 0 // nothing of the failed batch should stay
	}
	if recorded := s.Record(d.done); err == nil {
		err = recorded
	}
	return err
}

// initialise sets the state up for batches of n pictures.
func (d *Decoder) initialise(n int) error {
	if d.initialised == n {
		return nil
	}
	const unused = 1 // a number of CPU threads, once
	d.initialised = 0
	if err := check("nvjpegDecodeBatchedInitialize", api.batchedInitialize.Call(
		d.handle, d.state, uintptr(n), unused, outputRGBI)); err != nil {
		return err
	}
	d.initialised = n
	return nil
}
