package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// Filter says how [Set.Resample] weighs the source pixels around an output.
// Both filters widen with the scale when a picture is made smaller, so that
// every source pixel counts (antialiasing).
type Filter uint8

const (
	// Bilinear is a triangle that reaches 1 pixel to each side.
	Bilinear Filter = iota
	// Bicubic is Keys' cubic with a = -0.5, which reaches 2 pixels.
	Bicubic
)

// support is how far a filter reaches at scales up to 1, in pixels.
func (f Filter) support() float64 {
	if f == Bicubic {
		return 2
	}
	return 1
}

// Axis is one direction of a resize, in pixels: those from Offset to
// Offset+Length of the picture become Out, of which those from First on are
// the sample.
type Axis struct {
	Offset, Length int
	Out, First     int
}

// Picture is what [Set.Resample] makes one sample of.
type Picture struct {
	// Src has Height rows of Width pixels of three bytes, the first bytes of
	// two rows Pitch apart.
	Src           device.Ptr
	Pitch         int64
	Width, Height int

	// Orientation is that of EXIF: 1 for a picture that is stored upright, 2
	// to 8 for one that has to be mirrored or turned. 0 counts as 1.
	Orientation int

	// X and Y are the directions of the upright picture.
	X, Y   Axis
	Mirror bool // left to right, after all else
	Filter Filter
}

const (
	maxSide  = 65535   // of a picture, before and after resizing, as in package imaging
	maxPitch = 1 << 40 // so that no address computation runs over
)

// ResampleTable is the operand of [Set.Resample] for one batch, built and
// checked on the host: what it holds is safe to run. It is not safe for
// concurrent use.
type ResampleTable struct {
	width, height int
	entries       []byte
	sources       []operand
	words         int64 // of the weights
}

// NewResampleTable makes the table of a batch of samples of that size, 1 to
// 65535 each way. It fails with [device.ErrArgument].
func NewResampleTable(width, height int) (*ResampleTable, error) {
	if width < 1 || height < 1 || width > maxSide || height > maxSide {
		return nil, fmt.Errorf("kernels: resample table: %w: samples of %d x %d; sides are 1 to %d",
			device.ErrArgument, width, height, maxSide)
	}
	return &ResampleTable{width: width, height: height}, nil
}

// Len returns the number of samples.
func (t *ResampleTable) Len() int { return len(t.sources) }

// Bytes returns what has to lie at the start of the table's memory on the
// device when [Set.Resample] runs. It is valid until the next Add or Reset.
func (t *ResampleTable) Bytes() []byte { return t.entries }

// DeviceBytes returns how much memory the table needs on the device: its
// bytes and, behind them, room for the filters' weights, which the device
// works out.
func (t *ResampleTable) DeviceBytes() int64 { return int64(len(t.entries)) + 4*t.words }

// Reset empties the table for the next batch and keeps its memory.
func (t *ResampleTable) Reset() {
	t.entries, t.sources, t.words = t.entries[:0], t.sources[:0], 0
}

// Add appends a picture. It fails with [device.ErrArgument] when the picture
// is no memory that a device could have, or when its parts do not fit
// together; the table is then as before.
func (t *ResampleTable) Add(p Picture) error {
	if err := p.check(t.width, t.height); err != nil {
		return fmt.Errorf("kernels: resample table: picture %d: %w", t.Len(), err)
	}
	e := p.entry()
	e.atX = t.words
	e.atY = e.atX + p.X.words(t.width, p.Filter)
	t.words = e.atY + p.Y.words(t.height, p.Filter)
	entries, err := binary.Append(t.entries, binary.LittleEndian, &e)
	if err != nil {
		return fmt.Errorf("kernels: resample table: %w", err)
	}
	t.entries = entries
	t.sources = append(t.sources, p.source())
	return nil
}

// source is the memory that a picture takes.
func (p Picture) source() operand {
	return operand{"Src", p.Src, p.Pitch*int64(p.Height-1) + 3*int64(p.Width), 1}
}

func (p Picture) check(width, height int) error {
	row := 3 * int64(p.Width)
	switch {
	case p.Width < 1 || p.Height < 1 || p.Width > maxSide || p.Height > maxSide:
		return fmt.Errorf("%w: it has %d x %d pixels; sides are 1 to %d", device.ErrArgument, p.Width, p.Height, maxSide)
	case p.Pitch < row || p.Pitch > maxPitch:
		return fmt.Errorf("%w: a pitch of %d bytes for rows of %d", device.ErrArgument, p.Pitch, row)
	case p.Orientation < 0 || p.Orientation > 8:
		return fmt.Errorf("%w: orientation %d; 1 to 8 are possible", device.ErrArgument, p.Orientation)
	case p.Filter > Bicubic:
		return fmt.Errorf("%w: filter %d", device.ErrArgument, p.Filter)
	}
	uprightWidth, uprightHeight := p.Width, p.Height
	if p.Orientation > 4 {
		uprightWidth, uprightHeight = uprightHeight, uprightWidth
	}
	if err := p.X.check(uprightWidth, width); err != nil {
		return fmt.Errorf("axis X: %w", err)
	}
	if err := p.Y.check(uprightHeight, height); err != nil {
		return fmt.Errorf("axis Y: %w", err)
	}
	return p.source().check()
}

// check checks an axis of a picture with side pixels, of which n are kept.
func (a Axis) check(side, n int) error {
	switch {
	case a.Length < 1 || a.Offset < 0 || a.Offset > side-a.Length:
		return fmt.Errorf("%w: the %d pixels from %d on, of %d", device.ErrArgument, a.Length, a.Offset, side)
	case a.Out > maxSide || a.First < 0 || a.First > a.Out-n:
		return fmt.Errorf("%w: the %d outputs from %d on, of %d; there are %d at most",
			device.ErrArgument, n, a.First, a.Out, maxSide)
	}
	return nil
}

// words is the room that the weights of n outputs take, in 32-bit words: for
// each where its source pixels begin, how many there are, and their weights.
func (a Axis) words(n int, f Filter) int64 {
	scale := float64(a.Length) / float64(a.Out)
	taps := 2*int64(math.Ceil(f.support()*max(scale, 1))) + 1
	return int64(n) * (2 + min(taps, int64(a.Length)))
}

// resampleEntry is what the device reads of a picture, in little-endian order;
// resample.cuh has the same.
type resampleEntry struct {
	src          device.Ptr // the box's first pixel in reading order of the upright picture
	stepX, stepY int64      // bytes from there to the next pixel to the right and below
	atX, atY     int64      // where the axes' weights begin, in words
	x, y         resampleAxis
	filter       int32
	mirror       int32 // 0 or 1
}

type resampleAxis struct{ in, out, first int32 }

// PictureBytes is the size of a [ResampleTable]'s bytes for one picture.
const PictureBytes = 72

// entry works out how a checked picture is read. Reading backwards or down
// the columns is all that an orientation takes.
func (p Picture) entry() resampleEntry {
	e := resampleEntry{
		src: p.Src, stepX: 3, stepY: p.Pitch,
		x:      resampleAxis{int32(p.X.Length), int32(p.X.Out), int32(p.X.First)},
		y:      resampleAxis{int32(p.Y.Length), int32(p.Y.Out), int32(p.Y.First)},
		filter: int32(p.Filter),
	}
	switch p.Orientation {
	case 2, 3, 7, 8: // stored columns run from the last to the first
		e.src = e.src.Add(int64(p.Width-1) * e.stepX)
		e.stepX = -e.stepX
	}
	switch p.Orientation {
	case 3, 4, 6, 7: // stored rows run from the last to the first
		e.src = e.src.Add(int64(p.Height-1) * e.stepY)
		e.stepY = -e.stepY
	}
	if p.Orientation > 4 { // stored columns are rows
		e.stepX, e.stepY = e.stepY, e.stepX
	}
	e.src = e.src.Add(int64(p.X.Offset)*e.stepX + int64(p.Y.Offset)*e.stepY)
	if p.Mirror {
		e.mirror = 1
	}
	return e
}
