package loader

import (
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
)

// file is the encoded picture of a slot.
type file struct {
	content     []byte
	onDevice    bool // the device decodes it; else the slab has the sample
	jpeg        nvjpeg.JPEG
	orientation imaging.Orientation
	plan        imaging.Plan
	key         uint64
}

// keepFiles is the bytes of files' buffers that a device's slabs keep together.
// Where their batches have more than half of that, they keep twice what the
// batches have: else buffers would be made anew all the time. Tests have
// another one.
var keepFiles = 256 << 20

// trimFiles forgets the largest buffers of a slab that is not in use, so that
// it keeps no more than so many bytes, or twice the files of its last batch.
// Sizes differ: without that each buffer would grow to the largest file that
// ever came to its slot.
func (s *slab) trimFiles(most int) {
	used, kept := 0, 0
	for i := range s.files {
		f := &s.files[i]
		used, kept = used+len(f.content), kept+cap(f.content)
		f.content = f.content[:0]
	}
	if most = max(most, 2*used); kept <= most {
		return
	}
	slices.SortFunc(s.files, func(a, b file) int { return cap(b.content) - cap(a.content) })
	for i := 0; kept > most; i++ {
		kept -= cap(s.files[i].content)
		s.files[i].content, s.files[i].jpeg = nil, nvjpeg.JPEG{} // which is of it
	}
}

// fetch reads the file of a slot and leaves it to the device, if that takes it.
func (r *reading) fetch(c *decoding, j *job, slot int, v dataset.Visit, sample []byte) error {
	f := &j.slab.files[slot]
	f.onDevice, f.key = false, v.Key
	content, err := r.readers.encoded.ReadFile(r.loader.ctx, v, f.content[:0])
	if err != nil {
		return err
	}
	f.content = content
	if f.jpeg, err = nvjpeg.Parse(content); err == nil && !j.refused && c.takes(f.jpeg, r.readers.encoded.MaxPixels()) {
		f.orientation = r.readers.encoded.Orientation(content)
		width, height := f.orientation.Size(f.jpeg.Width, f.jpeg.Height)
		f.plan = c.transform.Plan(width, height, v.Key)
		if f.onDevice = max(f.plan.X.Full, f.plan.Y.Full) <= maxScaled; f.onDevice {
			*v.Frame = dataset.Frame{Width: width, Height: height}
			return nil
		}
	}
	return r.readers.encoded.Decode(v, content, sample)
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
