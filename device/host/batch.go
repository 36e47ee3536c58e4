package host

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// CanCopyBatch implements [device.BatchCopier].
func (d *Device) CanCopyBatch() bool { return true }

// CopyBatch implements [device.BatchCopier].
func (d *Device) CopyBatch(s device.Stream, spans []device.Span) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	hs, err := d.ownStream(s)
	if err != nil {
		return err
	}
	type piece struct{ dst, src []byte }
	pieces := make([]piece, len(spans))
	for i, span := range spans {
		err := span.Check()
		if err == nil {
			pieces[i].dst, err = d.resolve(span.Dst, span.Bytes)
		}
		if err == nil {
			pieces[i].src, err = d.resolve(span.Src, span.Bytes)
		}
		if err != nil {
			return fmt.Errorf("host: copy %d of a batch of %d: %w", i, len(spans), err)
		}
	}
	return hs.push(op{kind: opCall, fn: func() error {
		for _, p := range pieces {
			copy(p.dst, p.src)
		}
		return nil
	}})
}

var _ device.BatchCopier = (*Device)(nil)
