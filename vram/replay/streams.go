package replay

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// maxStreams bounds what a trace can make of streams.
const maxStreams = 1 << 16

// streams are those of a device by their numbers in a trace, made on first use.
type streams struct {
	dev  device.Device
	made map[int]device.Stream

	number int // that was asked for last
	last   device.Stream
}

func (s *streams) get(number int) (device.Stream, error) {
	if number == s.number && s.last != nil {
		return s.last, nil
	}
	stream, ok := s.made[number]
	if !ok {
		if len(s.made) == maxStreams {
			return nil, fmt.Errorf("replay: %w: more than %d streams", device.ErrArgument, maxStreams)
		}
		var err error
		if stream, err = s.dev.NewStream(); err != nil {
			return nil, fmt.Errorf("replay: stream %d: %w", number, err)
		}
		if s.made == nil {
			s.made = map[int]device.Stream{}
		}
		s.made[number] = stream
	}
	s.number, s.last = number, stream
	return stream, nil
}

func (s *streams) synchronize() error {
	var errs []error
	for _, stream := range s.made {
		errs = append(errs, stream.Synchronize())
	}
	return errors.Join(errs...)
}

func (s *streams) close() error {
	var errs []error
	for _, stream := range s.made {
		errs = append(errs, stream.Close())
	}
	s.made, s.last = nil, nil
	return errors.Join(errs...)
}
