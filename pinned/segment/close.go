package segment

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/shmem"
)

// Close unpins the segment, unmaps it and gives up ownership. Copies that use
// the memory must be done. The other owners keep it. A path is removed by the
// creator or, when that has died, by the last owner; who opened the segment
// before does not need it any more. When a device cannot unpin, the memory
// stays mapped and Close returns the reason. A second Close does nothing.
func (s *Segment) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	var err error
	for _, p := range slices.Backward(s.pins) {
		err = errors.Join(err, p.undo(s.data()))
	}
	stuck := err != nil
	err = errors.Join(err, s.depart(), shmem.Close(s.file))
	if !stuck {
		err = errors.Join(err, pagemem.Unmap(s.mem))
	}
	s.mem, s.file, s.pins = nil, nil, nil
	if err != nil {
		return fmt.Errorf("segment: close %s: %w", s.header.label(), err)
	}
	return nil
}

// depart gives up the owner slot and, if it falls to this owner, the path.
func (s *Segment) depart() error {
	unlock, err := shmem.Lock(s.file)
	if err != nil {
		return err
	}
	defer unlock()
	defer s.table().leave(s.slot, s.self)
	if s.path == "" || !isAt(s.file, s.path) {
		return nil
	}
	if last := len(s.table().live(process.ID.Alive)) == 1; s.creator || last {
		return os.Remove(s.path)
	}
	return nil
}
