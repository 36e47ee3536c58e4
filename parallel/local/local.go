// Package local has communicators whose ranks are goroutines of one process: for tests,
// and for programs that want to see on one machine what they do on many.
//
//	comms, err := local.New(devices...)
//	for rank, c := range comms {
//		go train(c)
//	}
package local

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/internal/hosted"
)

// New makes a group of as many ranks as there are devices, which may be the same one:
// the communicator of each. It fails with [device.ErrNotSupported] for a device that
// runs no Go functions.
func New(devices ...device.Device) ([]parallel.Comm, error) {
	if len(devices) == 0 {
		return nil, fmt.Errorf("parallel: %w: a group of no ranks", parallel.ErrArgument)
	}
	h := newHub(len(devices))
	var comms []parallel.Comm
	for rank, dev := range devices {
		c, err := hosted.New(dev, &engine{h, rank})
		if err != nil {
			return nil, err
		}
		comms = append(comms, c)
	}
	return comms, nil
}
