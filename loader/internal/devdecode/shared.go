package devdecode

import (
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// decoders holds one decoder a device, which all loaders on it share: two
// beside each other decode less than one, and one takes long to make.
type decoders struct {
	mu  sync.Mutex
	all []*sharedDecoder
}

var shared decoders

// sharedDecoder is the decoder of a device, until the last of its users closes
// it.
type sharedDecoder struct {
	JPEGDecoder
	among *decoders
	dev   device.Device
	users int
}

// open gives the decoder of a device to one more user.
func (d *decoders) open(dev device.Device) (*sharedDecoder, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.all {
		if device.Same(s.dev, dev) {
			s.users++
			return s, nil
		}
	}
	made, err := OpenJPEG(dev)
	if err != nil {
		return nil, err
	}
	s := &sharedDecoder{JPEGDecoder: made, among: d, dev: dev, users: 1}
	d.all = append(d.all, s)
	return s, nil
}

// Close is called once by each user.
func (s *sharedDecoder) Close() error {
	s.among.mu.Lock()
	defer s.among.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	s.among.all = slices.DeleteFunc(s.among.all, func(other *sharedDecoder) bool { return other == s })
	return s.JPEGDecoder.Close()
}
