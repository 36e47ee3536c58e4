package imaging

import (
	"fmt"
	"image/color"
	"sync"
)

const (
	// smallBytes is what a picture may take without being counted: nearly all
	// photos do, and their decoders never wait for each other.
	smallBytes = 64 << 20
	// sharedBytes is what larger ones may take together.
	sharedBytes = 1 << 30
)

// large is the memory of the pictures of more than smallBytes that are being
// decoded, in the whole process: a small file can ask for very much of it, and
// one for each worker could be more than the machine has.
var large = newShare(sharedBytes)

// share is an amount of memory that is handed out in the order of asking.
type share struct {
	turn sync.Mutex // of the one that waits
	mu   sync.Mutex
	left *sync.Cond // of room
	room int64
	used int64
}

func newShare(room int64) *share {
	s := &share{room: room}
	s.left = sync.NewCond(&s.mu)
	return s
}

// take waits until there is room for n bytes, or nobody else for more than
// there is.
func (s *share) take(n int64) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used > 0 && s.used+n > s.room {
		s.left.Wait()
	}
	s.used += n
}

func (s *share) give(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	s.left.Signal()
}

// reserve makes sure that there may be memory for src, and gives back what was
// reserved before.
func (d *Decoder) reserve(src *picture, data []byte) error {
	d.settle()
	need := src.bytes(data) + src.beside
	if need > d.maxBytes {
		return fmt.Errorf("%w: %s of %dx%d pixels takes %d bytes while it is decoded, the limit is %d",
			ErrTooLarge, src.format, src.width, src.height, need, d.maxBytes)
	}
	if need > smallBytes {
		large.take(need)
		d.reserved = need
	}
	return nil
}

// settle ends what reserve began, when the picture is done with.
func (d *Decoder) settle() {
	if d.reserved > 0 {
		large.give(d.reserved)
		d.reserved = 0
	}
}

// pixels is the number of them.
func (src *picture) pixels() int64 { return int64(src.width) * int64(src.height) }

// packedBytes is the size of the picture as rows of RGB.
func (src *picture) packedBytes() int64 { return 3 * src.pixels() }

// bytes is what decoding takes at most, its result included.
func (src *picture) bytes(data []byte) int64 {
	switch {
	case src.format == formatJPEG && src.turbo:
		f := frameOfJPEG(data, src.width, src.height)
		need := src.packedBytes()
		if f.progressive || f.scans {
			need += 2 * f.samples // coefficients of 16 bits
		}
		return need
	case src.format == formatJPEG:
		f := frameOfJPEG(data, src.width, src.height)
		need := f.samples
		if f.progressive {
			need += 4 * f.samples // coefficients of 32 bits
		}
		if src.model == color.CMYKModel || src.model == color.RGBAModel {
			need += 4 * src.pixels() // made of the planes
		}
		return need
	case src.format == formatPNG:
		const depth, kind, interlace = 24, 25, 28 // where the header has them
		each := int64(4)
		switch {
		case data[depth] == 16:
			each = 8
		case data[kind] == 3:
			each = 1
		}
		if data[interlace] == 1 {
			each *= 2 // each of seven passes is a picture first, all of them as large as the whole
		}
		return each * src.pixels()
	}
	return 8 * src.pixels() // a lossless WebP before and after its palette
}
