package loader

import (
	"bytes"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
)

// Stand-in is a decoder of a device that runs Go functions. It takes what the
// engines of a GPU take.
type StandIn struct {
	mu      sync.Mutex
	dev     device.Caller
	Engine  int
	Refuses func(width, height int) bool // whether the device finds a picture to be bad
	Before  func()                       // runs on the device before a picture is decoded
	Batches int                          // calls of Decode
	Decoded int                          // pictures
	Opened  int
	Closed  bool
}

// UseStandIn lets the loaders that a test makes decode with s.
func UseStandIn(t testing.TB, s *StandIn) {
	before := openDecoder
	openDecoder = func(dev device.Device) (jpegDecoder, error) {
		s.dev, s.Closed = devicetest.As[device.Caller](t, dev), false
		s.Opened++
		return s, nil
	}
	t.Cleanup(func() { openDecoder = before })
}

// SetRoom bounds the memory for decoded pictures of a loader that has not
// begun.
func SetRoom(t testing.TB, first, most int64) {
	a, b := firstRoom, mostRoom
	firstRoom, mostRoom = first, most
	t.Cleanup(func() { firstRoom, mostRoom = a, b })
}

// SetKeepFiles is what is kept of files by the loaders of a test.
func SetKeepFiles(t testing.TB, n int) {
	before := keepFiles
	keepFiles = n
	t.Cleanup(func() { keepFiles = before })
}

// FileBytes is what the buffers of files take of a loader that is at its end.
func FileBytes(l *Loader) (bytes int) {
	for _, n := range l.lanes {
		for _, s := range n.slabs.all {
			for _, f := range s.files {
				bytes += cap(f.content)
			}
		}
	}
	return bytes
}

// TrimFiles trims a slab with buffers of that capacity and length, and returns
// their capacities then.
func TrimFiles(caps, lens []int, most int) (left []int) {
	s := &slab{}
	for i, n := range caps {
		s.files = append(s.files, file{content: make([]byte, lens[i], n)})
	}
	s.trimFiles(most)
	for _, f := range s.files {
		left = append(left, cap(f.content))
	}
	return left
}

// ForgetsFile reports whether a slab that is trimmed lets go of a picture.
func ForgetsFile(content []byte) (bool, error) {
	s := &slab{files: []file{{content: bytes.Clone(content)}}}
	kept := weak.Make(&s.files[0].content[0])
	var err error
	if s.files[0].jpeg, err = nvjpeg.Parse(s.files[0].content); err != nil {
		return false, err
	}
	s.trimFiles(0) // twice what its last batch had may stay
	s.trimFiles(0)
	runtime.GC()
	forgotten := kept.Value() == nil
	runtime.KeepAlive(s)
	return forgotten, nil
}

func (s *StandIn) Engines() int { return s.Engine }

func (s *StandIn) Close() error {
	s.Closed = true
	return nil
}

func (s *StandIn) Supports(h nvjpeg.Header) bool {
	return !h.Progressive && h.Precision == 8 && (h.Components == 1 || h.Components == 3)
}

func (s *StandIn) Decode(stream device.Stream, pictures []nvjpeg.Picture) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Batches++
	refused := &nvjpeg.RefusedError{}
	for i, p := range pictures {
		if s.Refuses != nil && s.Refuses(p.JPEG.Width, p.JPEG.Height) {
			refused.Pictures = append(refused.Pictures, nvjpeg.Refusal{Index: i, Err: imaging.ErrDamaged})
			continue
		}
		s.Decoded++
		file := p.JPEG.Bytes()
		err := s.dev.Call(stream, func() error {
			if s.Before != nil {
				s.Before()
			}
			d := imaging.NewDecoder(imaging.Options{IgnoreOrientation: true})
			defer d.Close()
			var m imaging.Image
			if err := d.Decode(&m, file); err != nil {
				return err
			}
			if p.Pitch != 3*m.Width {
				return fmt.Errorf("a pitch of %d for %d pixels", p.Pitch, m.Width)
			}
			to, err := s.dev.Bytes(p.Dst, int64(len(m.Pix)))
			if err != nil {
				return err
			}
			copy(to, m.Pix)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(refused.Pictures) > 0 {
		return refused
	}
	return nil
}
