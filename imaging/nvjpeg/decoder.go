package nvjpeg

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
)

// Backend is the part of the GPU that decodes.
type Backend int

const (
	Auto     Backend = iota // the engines where the GPU has them, else CUDA
	Hardware                // JPEG engines (A100, H100, Ada and newer)
	CUDA                    // kernels on the multiprocessors, which share them with all other work
)

// Options configures a [Decoder]. The zero value works.
type Options struct {
	// Backend is what decodes. [Open] fails with [device.ErrNotSupported] where
	// it is asked for and not there. Default [Auto].
	Backend Backend
	// MaxBatch is the most pictures that are given to the library at a time;
	// [Decoder.Decode] splits what is more. The library keeps device memory for
	// as many. Default 256.
	MaxBatch int
	// MaxPixels is the largest width x height that is decoded; larger pictures
	// are refused with [imaging.ErrTooLarge]. Default 100 million.
	MaxPixels int
}

const (
	defaultMaxBatch  = 256
	defaultMaxPixels = 100_000_000
)

// Decoder decodes JPEGs on one device. All its methods are safe for concurrent
// use; it works on one batch at a time.
type Decoder struct {
	gpu     gpu
	options Options
	engines int // of the hardware; 0 is CUDA

	mu          sync.Mutex
	closed      bool
	handle      uintptr
	state       uintptr
	initialised int          // pictures that the state is set up for
	done        device.Event // behind the newest batch
	able        []int
	batch       batch
}

// gpu is what a decoder asks of a CUDA device.
type gpu struct {
	device.Device
	device.Native
	device.RangeChecker
}

// batch is the lists of a call of nvjpegDecodeBatched. It lies in the heap, so
// what it points to neither moves nor goes away during the call.
type batch struct {
	data    []*byte
	lengths []uintptr
	images  []nvImage
}

// Open makes a decoder on dev. It fails with [device.ErrNotSupported] when dev
// is not a CUDA device or nvJPEG is not installed. Close the decoder before
// the device.
func Open(dev device.Device, options Options) (*Decoder, error) {
	native, isNative := device.As[device.Native](dev)
	ranges, canCheck := device.As[device.RangeChecker](dev)
	if !isNative || !canCheck || native.API() != device.CUDA {
		return nil, fmt.Errorf("nvjpeg: %w: %s is not a CUDA device", device.ErrNotSupported, dev.Info().ID)
	}
	g := gpu{dev, native, ranges}
	if options.Backend < Auto || options.Backend > CUDA {
		return nil, fmt.Errorf("nvjpeg: %w: backend %d", device.ErrArgument, options.Backend)
	}
	flags, err := library()
	if err != nil {
		return nil, err
	}
	if options.MaxBatch <= 0 {
		options.MaxBatch = defaultMaxBatch
	}
	if options.MaxPixels <= 0 {
		options.MaxPixels = defaultMaxPixels
	}
	d := &Decoder{gpu: g, options: options}
	if d.done, err = dev.NewEvent(device.EventNoTiming | device.EventBlockingSync); err != nil {
		return nil, err
	}
	err = g.WithContext(func() error { return d.create(flags) })
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// create makes the library's handle and state.
func (d *Decoder) create(flags uintptr) error {
	if d.options.Backend != CUDA {
		err := d.createHardware(flags)
		if err != nil && d.options.Backend == Hardware {
			return fmt.Errorf("nvjpeg: %w: no JPEG engines: %w", device.ErrNotSupported, err)
		}
	}
	if d.engines == 0 {
		if err := d.createHandle(backendGPUHybrid, flags); err != nil {
			return err
		}
	}
	return check("nvjpegJpegStateCreate", api.stateCreate.Call(d.handle, uintptr(unsafe.Pointer(&d.state))))
}

// createHardware makes the handle on the engines, or none.
func (d *Decoder) createHardware(flags uintptr) error {
	err := d.createHandle(backendHardware, flags)
	if err == nil {
		d.engines, err = d.countEngines()
	}
	if err != nil {
		return errors.Join(err, d.destroyHandle())
	}
	return nil
}

func (d *Decoder) createHandle(backend, flags uintptr) error {
	return check("nvjpegCreateEx", api.createEx.Call(backend, 0, 0, flags, uintptr(unsafe.Pointer(&d.handle))))
}

func (d *Decoder) destroyHandle() error {
	if d.handle == 0 {
		return nil
	}
	err := check("nvjpegDestroy", api.destroy.Call(d.handle))
	d.handle = 0
	return err
}

// countEngines fails where there are none.
func (d *Decoder) countEngines() (int, error) {
	const call = "nvjpegGetHardwareDecoderInfo"
	if !api.hardwareDecoderInfo.Ok() {
		return 0, &Error{Call: call, Status: statusNotImplemented}
	}
	var engines, cores uint32
	err := check(call, api.hardwareDecoderInfo.Call(d.handle,
		uintptr(unsafe.Pointer(&engines)), uintptr(unsafe.Pointer(&cores))))
	if err == nil && engines == 0 {
		err = &Error{Call: call, Status: statusArchMismatch}
	}
	return int(engines), err
}

// Backend names what decodes: "hardware (7 engines)" or "CUDA".
func (d *Decoder) Backend() string {
	if d.engines > 0 {
		return fmt.Sprintf("hardware (%d engines)", d.engines)
	}
	return "CUDA"
}

// Engines is the number of JPEG engines that decode, 0 for [CUDA].
func (d *Decoder) Engines() int { return d.engines }

// Close waits for the newest batch and gives back the library's memory. A
// second Close does nothing.
func (d *Decoder) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	waited := d.done.Synchronize()
	destroyed := d.gpu.WithContext(func() error {
		var err error
		if d.state != 0 {
			err = check("nvjpegJpegStateDestroy", api.stateDestroy.Call(d.state))
		}
		return errors.Join(err, d.destroyHandle())
	})
	return errors.Join(waited, destroyed, d.done.Close())
}
