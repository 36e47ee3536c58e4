package devdecode

import (
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// ErrRefused: some pictures were left to the CPU after all, see
// [Files.Refused].
var ErrRefused = errors.New("refused by the device")

// Queue queues the making of a batch's samples at dst: files are decoded,
// samples that workers made are copied, and all of them are resampled. table is
// where in the slab there is room for what is sent with them. It fails with
// [ErrRefused] if the device does not take some of the pictures after all. No
// worker has any picture of the batch when it returns.
func (d *Decoder) Queue(dst device.Ptr, c *slab.Contents, f *Files, table int) error {
	f.Claim()
	defer f.Wait()
	if err := d.makeRoom(c, f); err != nil {
		return err
	}
	d.sent = 0
	for from := 0; from < len(c.Indexes); {
		to, err := d.group(dst, c, f, table, from)
		if err != nil {
			return err
		}
		from = to
	}
	if len(f.refused) > 0 {
		return ErrRefused
	}
	return nil
}

// makeRoom grows the scratch for a batch, as far as it may.
func (d *Decoder) makeRoom(c *slab.Contents, f *Files) error {
	var all int64
	for slot := range c.Indexes {
		all += d.need(f, slot)
	}
	limit := d.limit.Load()
	if all <= d.room || d.room == limit {
		return nil
	}
	want := min(limit, all+all/4)
	if memory, err := d.dev.Memory(); err == nil {
		want = min(want, memory.FreeBytes/4) // both are half of what is free: the decoder needs memory, too
	}
	var err error
	if want > d.room {
		err = d.grow(want)
	}
	if want <= d.room && want < limit || errors.Is(err, device.ErrOutOfMemory) {
		err = nil
		d.limit.Store(d.room) // larger pictures are for the CPU from now on
	}
	return err
}

// need is the bytes of a slot's picture in scratch.
func (d *Decoder) need(f *Files, slot int) int64 {
	if e := &f.list[slot]; e.onDevice {
		return pixelBytes(e.jpeg)
	}
	return d.sampleRoom()
}

// sampleRoom is the bytes of a sample in scratch.
func (d *Decoder) sampleRoom() int64 {
	return (int64(d.transform.Bytes()) + pixelAlign - 1) &^ (pixelAlign - 1)
}

// group queues the slots from one on that fit into a scratch together, and
// returns the one behind them.
func (d *Decoder) group(dst device.Ptr, c *slab.Contents, f *Files, table, from int) (to int, err error) {
	s := &d.scratch[d.turn]
	d.turn ^= 1
	if err := d.stream.Wait(s.free); err != nil {
		return from, err
	}
	d.pictures, d.slots, d.made = d.pictures[:0], d.slots[:0], d.made[:0]
	d.table.Reset()
	at := int64(0)
	for to = from; to < len(c.Indexes); to++ {
		n := d.need(f, to)
		if at+n > d.room {
			if to > from {
				break
			}
			f.refuse(from) // memory was short: not even this one fits
			return from + 1, nil
		}
		if err := d.place(c, f, to, s.pixels+device.Ptr(at)); err != nil {
			return from, err
		}
		at += n
	}
	if refused, err := d.decode(f); refused || err != nil {
		return to, err
	}
	if refused, err := d.send(c, f); refused || err != nil {
		return to, err
	}
	return to, d.resample(s, dst+device.Ptr(from*d.transform.Bytes()), c.Slab.Bytes[table+from*kernels.PictureBytes:])
}

// place says where the picture of a slot goes, and what becomes of it there.
func (d *Decoder) place(c *slab.Contents, f *Files, slot int, at device.Ptr) error {
	e := &f.list[slot]
	if e.onDevice {
		d.sent += int64(len(e.content))
		p := nvjpeg.Picture{JPEG: e.jpeg, Dst: at, Pitch: 3 * e.jpeg.Width}
		d.pictures, d.slots = append(d.pictures, p), append(d.slots, slot)
		return d.table.Add(kernels.Picture{
			Src: at, Pitch: int64(p.Pitch), Width: e.jpeg.Width, Height: e.jpeg.Height,
			Orientation: int(e.orientation),
			X:           kernelAxis(e.plan.X), Y: kernelAxis(e.plan.Y),
			Mirror: e.plan.Mirror, Filter: kernels.Filter(e.plan.Filter),
		})
	}
	d.made = append(d.made, made{slot, at})
	width, height := d.transform.Size()
	return d.table.Add(kernels.Picture{ // as it is
		Src: at, Pitch: int64(3 * width), Width: width, Height: height,
		X: kernels.Axis{Length: width, Out: width}, Y: kernels.Axis{Length: height, Out: height},
	})
}

func kernelAxis(a imaging.Axis) kernels.Axis {
	return kernels.Axis{Offset: a.Offset, Length: a.Length, Out: a.Full, First: a.First}
}

// decode decodes the pictures that were placed, and reports whether the device
// refused some.
func (d *Decoder) decode(f *Files) (some bool, err error) {
	if len(d.pictures) == 0 {
		return false, nil
	}
	err = d.decoder.Decode(d.stream, d.pictures)
	if errors.Is(err, device.ErrOutOfMemory) { // somebody else took it
		for _, slot := range d.slots {
			f.refuse(slot)
		}
		return true, nil
	}
	var refused *nvjpeg.RefusedError
	if !errors.As(err, &refused) {
		return false, err
	}
	for _, p := range refused.Pictures {
		f.refuse(d.slots[p.Index])
	}
	return true, nil
}

// send queues the copies of the samples that workers made, which they may have been
// at while the device decoded the rest, and reports whether one could not be made.
func (d *Decoder) send(c *slab.Contents, f *Files) (some bool, err error) {
	f.Wait()
	for _, m := range d.made {
		if f.list[m.slot].lost {
			f.refuse(m.slot)
			some = true
			continue
		}
		sample := c.Sample(m.slot)
		d.sent += int64(len(sample))
		if err := d.stream.CopyH2D(m.at, sample); err != nil {
			return some, err
		}
	}
	return some, nil
}

// resample queues what makes samples at dst of the pictures in s. host is
// pinned memory for the table, which stays until the batch is done.
func (d *Decoder) resample(s *scratch, dst device.Ptr, host []byte) error {
	if need := d.table.DeviceBytes(); need > s.tableBytes {
		fresh, err := d.dev.Alloc(need + need/2)
		if err != nil {
			return err
		}
		if s.table != 0 {
			// Free waits for what still uses it.
			if err := d.dev.Free(s.table); err != nil {
				return errors.Join(err, d.dev.Free(fresh))
			}
		}
		s.table, s.tableBytes = fresh, need+need/2
	}
	host = host[:copy(host, d.table.Bytes())]
	if err := d.stream.CopyH2D(s.table, host); err != nil {
		return err
	}
	if err := d.stream.Record(d.decoded); err != nil {
		return err
	}
	if err := d.compute.Wait(d.decoded); err != nil {
		return err
	}
	if err := d.kernels.Resample(d.compute, dst, d.table, s.table); err != nil {
		return err
	}
	return d.compute.Record(s.free)
}
