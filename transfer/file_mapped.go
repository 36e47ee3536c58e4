package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
)

// readMapped copies straight from a mapping of the file.
func (e *Engine) readMapped(ctx context.Context, c *FileCopy, r *FileReport) (err error) {
	mapped, unmap, err := directio.Map(c.File, c.Offset, c.Bytes)
	if errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("path %q: %w: %w", c.Path, device.ErrNotSupported, err)
	}
	if err != nil {
		return err
	}
	// Also when Progress panics, the copy returns with nothing under way.
	defer func() { err = errors.Join(err, unmap()) }()
	t := e.begin(hostToDevice, wayMapped, c.Bytes)
	defer func() { t.end(ctx, c.Bytes, err) }()
	if err := e.streams.copy(ctx, Copy{Host: mapped, Device: c.Device, Progress: c.Progress}); err != nil {
		if info, statErr := c.File.Stat(); statErr == nil && info.Mode().IsRegular() && info.Size() < c.Offset+c.Bytes {
			err = fmt.Errorf("%w: the file has %d bytes now: %w", errShort, info.Size(), err)
		}
		return err
	}
	r.MappedBytes = c.Bytes
	return nil
}
