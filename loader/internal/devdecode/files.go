package devdecode

import (
	"context"
	"slices"
	"sync"

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

	// Pictures that workers take although they were left to the device, while
	// it has not come to the batch: those of the last slots first.
	mu    sync.Mutex
	owner any        // the batch that they are of; nil: none may be taken
	from  int        // slots from this one on were looked at
	busy  int        // pictures that workers are at
	idle  *sync.Cond // signals that none is left of busy
}

// file is the encoded picture of a slot.
type file struct {
	content     []byte
	onDevice    bool // the device decodes it; else the slab has the sample
	lost        bool // a worker took it and could not decode it
	jpeg        nvjpeg.JPEG
	orientation imaging.Orientation
	plan        imaging.Plan
	key         uint64
}

// NewFiles makes room for the files of a slab with so many places.
func (d *Decoder) NewFiles(places int) *Files {
	f := &Files{decoder: d, list: make([]file, places)}
	f.idle = sync.NewCond(&f.mu)
	return f
}

// KeepBytes is the bytes of files' buffers that the slabs of a device keep
// together. Batches with more than half of that keep twice their own bytes:
// otherwise buffers would be made anew all the time. Tests have another one.
var KeepBytes = 256 << 20

// Reset prepares for the next batch. It drops the largest buffers, so that the
// rest takes no more than most bytes, or twice the files of the last batch.
// Sizes differ: without that each buffer would grow to the largest file that
// its slot ever had.
func (f *Files) Reset(most int) {
	f.Claim()
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
	e.onDevice, e.lost, e.key = false, false, v.Key
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

// Offer lets workers [Files.Take] pictures of the first count slots, all of which
// were fetched. Owner stands for the batch.
func (f *Files) Offer(owner any, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner, f.from = owner, count
}

// Take gives a picture of the owner's batch to a worker, which decodes it into the
// slab and calls [Files.Took]; false: there is none any more.
func (f *Files) Take(owner any) (slot int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.owner != owner {
		return 0, false
	}
	for f.from > 0 {
		f.from--
		if e := &f.list[f.from]; e.onDevice {
			e.onDevice = false
			f.busy++
			return f.from, true
		}
	}
	return 0, false
}

// Took ends Take. A picture that the worker could not decode counts as one that the
// device refused.
func (f *Files) Took(slot int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list[slot].lost = err != nil
	if f.busy--; f.busy == 0 {
		f.idle.Broadcast()
	}
}

// Offered reports whether workers may take pictures of the owner's batch.
func (f *Files) Offered(owner any) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner == owner && f.from > 0
}

// Claim ends Offer: what was not taken is the device's.
func (f *Files) Claim() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owner = nil
}

// Wait waits for the workers that have pictures.
func (f *Files) Wait() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.busy > 0 {
		f.idle.Wait()
	}
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
	f.list[slot].onDevice, f.list[slot].lost = false, false
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
