package loader

import (
	"errors"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/kernels"
)

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
	sample := j.sample(slot)
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
	sample := j.sample(slot)
	v := dataset.Visit{Index: j.indexes[slot], Key: f.key}
	if err := r.readers.decode(v, f.content, sample); err != nil {
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
