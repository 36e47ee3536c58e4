package devdecode

import (
	"sync"

	"github.com/pinion-gpu/pinion/device"
)

// decoders holds one decoder a device, which all loaders on it share: two
// beside each other decode less than one, and one takes long to make.
type decoders struct {
	mu  sync.Mutex
	all map[device.Device]*sharedDecoder
}

var shared = decoders{all: map[device.Device]*sharedDecoder{}}

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
	s := d.all[dev]
	if s == nil {
		made, err := OpenJPEG(dev)
		if err != nil {
			return nil, err
		}
		s = &sharedDecoder{JPEGDecoder: made, among: d, dev: dev}
		d.all[dev] = s
	}
	s.users++
	return s, nil
}

// Close is called once by each user.
func (s *sharedDecoder) Close() error {
	s.among.mu.Lock()
	defer s.among.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	delete(s.among.all, s.dev)
	return s.JPEGDecoder.Close()
}
