package devdecode

import (
	"context"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
)

// Files are the encoded pictures of the samples in a slab, by slot.
type Files struct {
	decoder *Decoder
	list    []file
	cpuOnly bool  // the device refused some: what is still to be read, the CPU decodes
	refused []int // slots that [Decoder.Queue] left to the CPU
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

// NewFiles makes room for the files of a slab with so many places.
func (d *Decoder) NewFiles(places int) *Files { return &Files{decoder: d, list: make([]file, places)} }

// KeepBytes is the bytes of files' buffers that the slabs of a device keep
// together. Batches with more than half of that keep twice their own bytes:
// otherwise buffers would be made anew all the time. Tests have another one.
var KeepBytes = 256 << 20

// Reset prepares for the next batch. It drops the largest buffers, so that the
// rest takes no more than most bytes, or twice the files of the last batch.
// Sizes differ: without that each buffer would grow to the largest file that
// its slot ever had.
func (f *Files) Reset(most int) {
	f.cpuOnly, f.refused = false, f.refused[:0]
	used, kept := 0, 0
	for i := range f.list {
		e := &f.list[i]
		used, kept = used+len(e.content), kept+cap(e.content)
		e.content = e.content[:0]
	}
	if most = max(most, 2*used); kept <= most {
		return
	}
	slices.SortFunc(f.list, func(a, b file) int { return cap(b.content) - cap(a.content) })
	for i := 0; kept > most; i++ {
		kept -= cap(f.list[i].content)
		f.list[i].content, f.list[i].jpeg = nil, nvjpeg.JPEG{} // jpeg holds the content too
	}
}

// Bytes is what the buffers of the files take.
func (f *Files) Bytes() (n int) {
	for i := range f.list {
		n += cap(f.list[i].content)
	}
	return n
}

// Swap exchanges the files of two slots.
func (f *Files) Swap(a, b int) { f.list[a], f.list[b] = f.list[b], f.list[a] }

// Fetch reads the file of a slot. It leaves the file to the device, if that
// takes it, and else decodes it into sample. Several goroutines may fetch.
func (f *Files) Fetch(ctx context.Context, r dataset.EncodedReader, slot int, v dataset.Visit, sample []byte) error {
	e := &f.list[slot]
	e.onDevice, e.key = false, v.Key
	content, err := r.ReadFile(ctx, v, e.content[:0])
	if err != nil {
		return err
	}
	e.content = content
	if e.jpeg, err = nvjpeg.Parse(content); err == nil && !f.cpuOnly && !f.decoder.leaves(v.Key) && f.decoder.takes(e.jpeg, r.MaxPixels()) {
		e.orientation = r.Orientation(content)
		width, height := e.orientation.Size(e.jpeg.Width, e.jpeg.Height)
		e.plan = f.decoder.transform.Plan(width, height, v.Key)
		if e.onDevice = max(e.plan.X.Full, e.plan.Y.Full) <= maxScaled; e.onDevice {
			*v.Frame = dataset.Frame{Width: width, Height: height}
			return nil
		}
	}
	return r.Decode(ctx, v, content, sample)
}

// Refused returns the slots whose pictures [Decoder.Queue] left to the CPU. From
// now on, [Files.Fetch] leaves none of this batch to the device.
func (f *Files) Refused() []int {
	f.cpuOnly = true
	slots := f.refused
	f.refused = nil
	return slots
}

// Content returns the file of a slot, and the key that it was read with.
func (f *Files) Content(slot int) (content []byte, key uint64) {
	return f.list[slot].content, f.list[slot].key
}

// refuse leaves the picture of a slot to the CPU.
func (f *Files) refuse(slot int) {
	f.list[slot].onDevice = false
	f.refused = append(f.refused, slot)
}

// maxScaled is the longest side that the device scales a picture to. A narrow
// picture whose middle is taken may have a longer one.
const maxScaled = 65535

// leaves reports whether the picture of a visit is one of those that the caller
// decodes although the device would. Other draws from its key have nothing to do
// with this one.
func (d *Decoder) leaves(key uint64) bool {
	return float64(key*0x9e3779b97f4a7c15>>11) < d.cpuShare*(1<<53)
}

// takes reports whether the device decodes a picture. The CPU fails for those
// that are larger than the dataset allows.
func (d *Decoder) takes(j nvjpeg.JPEG, maxPixels int) bool {
	return d.decoder.Supports(j.Header) && pixelBytes(j) <= d.limit.Load() &&
		int64(j.Width)*int64(j.Height) <= int64(maxPixels)
}

// pixelAlign keeps the pictures in scratch apart.
const pixelAlign = 256

func pixelBytes(j nvjpeg.JPEG) int64 {
	return (3*int64(j.Width)*int64(j.Height) + pixelAlign - 1) &^ (pixelAlign - 1)
}
