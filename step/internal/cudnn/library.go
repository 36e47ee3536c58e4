package cudnn

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// Library is cuDNN for one device. Its methods are safe for concurrent use.
type Library struct {
	native  device.Native
	ranges  device.RangeChecker
	version int

	mu     sync.Mutex
	handle uintptr // 0 when closed
	plans  map[string]*Plan
}

// Open makes a Library for dev. It fails with [device.ErrNotSupported] when dev is not a
// CUDA device or cuDNN is not installed.
func Open(dev device.Device) (*Library, error) {
	native, isNative := device.As[device.Native](dev)
	ranges, canCheck := device.As[device.RangeChecker](dev)
	if !isNative || !canCheck || native.API() != device.CUDA {
		return nil, fmt.Errorf("cudnn: %w: %s is not a CUDA device", device.ErrNotSupported, dev.Info().ID)
	}
	version, err := library()
	if err != nil {
		return nil, err
	}
	l := &Library{native: native, ranges: ranges, version: version, plans: map[string]*Plan{}}
	err = native.WithContext(func() error {
		return check("cudnnCreate", api.create.Call(uintptr(unsafe.Pointer(&l.handle))))
	})
	if err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	return l, nil
}

// Version is the library's name and version.
func (l *Library) Version() string { return "cuDNN " + versionText(l.version) }

// Plan is how the library computes a convolution. It is gone when the library is closed.
type Plan struct {
	of        Convolution
	desc      descriptor
	workspace int64
}

// WorkspaceBytes is how much memory the plan needs while it runs.
func (p *Plan) WorkspaceBytes() int64 { return p.workspace }

// Plan finds out how to compute a convolution; of the same one, it is asked once. It
// fails with [device.ErrNotSupported] where the library has no way that gives the same
// bits each time.
func (l *Library) Plan(c Convolution) (*Plan, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	key := fmt.Sprint(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return nil, fmt.Errorf("cudnn: %w", device.ErrClosed)
	}
	if p := l.plans[key]; p != nil {
		return p, nil
	}
	p := &Plan{of: c}
	err := l.native.WithContext(func() (err error) {
		p.desc, p.workspace, err = plan(l.handle, &p.of)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cudnn: %w", err)
	}
	l.plans[key] = p
	return p, nil
}

// Run queues a convolution on a stream. Image, filter and result lie where it says, at
// multiples of 16 bytes; one of them, by its kind, is written. The workspace has as many
// bytes as the plan needs, and lies at a multiple of 256.
func (l *Library) Run(s device.Stream, p *Plan, image, filter, result, workspace device.Ptr) error {
	if s == nil {
		return fmt.Errorf("cudnn: %w: no stream", device.ErrArgument)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return fmt.Errorf("cudnn: %w", device.ErrClosed)
	}
	width := int64(p.of.Type.Size())
	// A kernel that reads elsewhere may make the device unusable.
	for _, r := range []struct {
		name     string
		at       device.Ptr
		bytes    int64
		multiple device.Ptr
	}{
		{"image", image, width * size(p.of.Image), alignment}, {"filter", filter, width * size(p.of.Filter), alignment},
		{"result", result, width * size(p.of.Result), alignment}, {"workspace", workspace, p.workspace, 256},
	} {
		if r.bytes == 0 {
			continue
		}
		if r.at%r.multiple != 0 {
			return fmt.Errorf("cudnn: %w: the %s is not at a multiple of %d bytes", device.ErrArgument, r.name, r.multiple)
		}
		if err := l.ranges.CheckRange(r.at, r.bytes); err != nil {
			return fmt.Errorf("cudnn: %s: %w", r.name, err)
		}
	}
	err := l.native.WithStream(s, func(stream uintptr) error {
		if err := check("cudnnSetStream", api.setStream.Call(l.handle, stream)); err != nil {
			return err
		}
		var b builder
		pack := b.pack(image, filter, result, workspace)
		if b.err == nil {
			b.err = check("cudnnBackendExecute", api.execute.Call(l.handle, uintptr(p.desc), uintptr(pack)))
		}
		return b.close()
	})
	if err != nil {
		return fmt.Errorf("cudnn: %v: %w", p.of.Kind, err)
	}
	return nil
}

// Close lets go of the library's memory. Its plans do not run afterwards.
func (l *Library) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.handle == 0 {
		return nil
	}
	err := l.native.WithContext(func() error {
		var errs []error
		for _, p := range l.plans {
			errs = append(errs, p.desc.destroy())
		}
		return errors.Join(append(errs, check("cudnnDestroy", api.destroy.Call(l.handle)))...)
	})
	l.handle = 0
	clear(l.plans)
	return err
}
