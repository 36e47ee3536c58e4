package imaging

import (
	"context"
	"fmt"
	"image/color"
	"runtime"
	"sync"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"golang.org/x/sync/semaphore"
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
	room int64
	free *semaphore.Weighted

	mu    sync.Mutex
	used  int64
	stale int64 // given back since the last collection, and still allocated
}

func newShare(room int64) *share {
	return &share{room: room, free: semaphore.NewWeighted(room)}
}

// take waits until there is room for n bytes, or for all of it where n is more
// than there is, and returns how many it took. It fails when ctx ends before.
//
// What was given back is garbage, of which the runtime lets as much pile up as
// there is memory in use. So a collection makes room where the two together
// would be more than there may be.
func (s *share) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, s.room)
	if err := s.free.Acquire(ctx, n); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.used += n
	collect := s.stale > 0 && s.used+s.stale > s.room
	if collect {
		s.stale = 0
	}
	s.mu.Unlock()
	if collect {
		runtime.GC()
	}
	return n, nil
}

func (s *share) give(n int64) {
	s.mu.Lock()
	s.used -= n
	s.stale += n
	s.mu.Unlock()
	s.free.Release(n)
}

// reserve makes sure that there may be memory for src, and gives back what was
// reserved before.
func (d *Decoder) reserve(ctx context.Context, src *picture, data []byte) (err error) {
	d.settle()
	need := src.bytes(data) + src.beside
	if need > d.maxBytes {
		return fmt.Errorf("%w: %s of %dx%d pixels takes %d bytes while it is decoded, the limit is %d",
			ErrTooLarge, src.format, src.width, src.height, need, d.maxBytes)
	}
	if need > smallBytes {
		if d.reserved, err = large.take(ctx, need); err != nil {
			return fmt.Errorf("%s of %dx%d pixels: waiting for memory to decode it: %w", src.format, src.width, src.height, err)
		}
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
	case src.format == header.JPEG && src.turbo:
		f := header.FrameOf(data, src.width, src.height)
		need := src.packedBytes()
		if f.Progressive || f.Scans {
			need += 2 * f.Samples // coefficients of 16 bits
		}
		return need
	case src.format == header.JPEG:
		f := header.FrameOf(data, src.width, src.height)
		need := f.Samples
		if f.Progressive {
			need += 4 * f.Samples // coefficients of 32 bits
		}
		if src.model == color.CMYKModel || src.model == color.RGBAModel {
			need += 4 * src.pixels() // made of the planes
		}
		return need
	case src.format == header.PNG:
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
