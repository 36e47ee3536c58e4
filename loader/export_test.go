package loader

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/loader/internal/devdecode"
)

// Stand-in is a decoder of a device that runs Go functions. It takes what the
// engines of a GPU take.
type StandIn struct {
	mu      sync.Mutex
	dev     device.Caller
	Engine  int
	Refuses func(width, height int) bool // whether the device finds a picture to be bad
	Short   func(batch int) bool         // whether there is no memory for a call of Decode
	Before  func()                       // runs on the device before a picture is decoded
	Batches int                          // calls of Decode
	Decoded int                          // pictures
	Opened  int
	Closed  bool
}

// UseStandIn lets the loaders that a test makes decode with s.
func UseStandIn(t testing.TB, s *StandIn) {
	before := devdecode.OpenJPEG
	devdecode.OpenJPEG = func(dev device.Device) (devdecode.JPEGDecoder, error) {
		s.dev, s.Closed = devicetest.As[device.Caller](t, dev), false
		s.Opened++
		return s, nil
	}
	t.Cleanup(func() { devdecode.OpenJPEG = before })
}

// Stopped is closed when the goroutines of a loader are told to end.
func Stopped(l *Loader) <-chan struct{} { return l.run.ctx.Done() }

// Finished is how many batches are complete, and not delivered.
func Finished(l *Loader) int64 { return l.finished.Load() }

// SetRoom bounds the memory for decoded pictures of a loader that has not
// begun.
func SetRoom(t testing.TB, first, most int64) {
	a, b := devdecode.FirstRoom, devdecode.MostRoom
	devdecode.FirstRoom, devdecode.MostRoom = first, most
	t.Cleanup(func() { devdecode.FirstRoom, devdecode.MostRoom = a, b })
}

// SetKeepFiles is what is kept of files by the loaders of a test.
func SetKeepFiles(t testing.TB, n int) {
	before := devdecode.KeepBytes
	devdecode.KeepBytes = n
	t.Cleanup(func() { devdecode.KeepBytes = before })
}

// FileBytes is what the buffers of files take of a loader that is at its end.
func FileBytes(l *Loader) (bytes int) {
	for _, n := range l.feeders {
		for range n.slabs.All {
			p := <-n.free
			bytes += p.files.Bytes()
			n.free <- p
		}
	}
	return bytes
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
	if s.Short != nil && s.Short(s.Batches) {
		return device.ErrOutOfMemory
	}
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
			if err := d.Decode(context.Background(), &m, file); err != nil {
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
