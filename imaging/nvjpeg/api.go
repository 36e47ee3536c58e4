package nvjpeg

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// api is the part of nvJPEG that Pinion calls.
var api struct {
	getProperty, createEx, destroy, hardwareDecoderInfo dl.Func
	stateCreate, stateDestroy                           dl.Func
	batchedInitialize, decodeBatched                    dl.Func
}

// Values of nvjpeg.h. testdata/abi/abi.c prints them.
const (
	statusInvalidParameter = 2
	statusBadJPEG          = 3
	statusNotSupported     = 4
	statusAllocator        = 5
	statusArchMismatch     = 7
	statusNotImplemented   = 9
	statusIncomplete       = 10

	backendGPUHybrid = 2
	backendHardware  = 3

	outputRGBI = 5 // red, green and blue bytes in turn

	flagInterpolate = 32 // chroma, as libjpeg's fancy upsampling; from version 12.1

	propertyMajor = 0
	propertyMinor = 1
)

// nvImage is nvjpegImage_t: where the planes of a picture go. The library
// writes interleaved pixels to the first.
type nvImage struct {
	channel [4]device.Ptr
	pitch   [4]uintptr
}

// minMajor is the oldest version that is accepted; nvjpegImage_t was another
// before.
const minMajor = 12

// library is [load], once for the process.
var library = dl.Bind("nvJPEG", "JPEG decoding on the GPU", load)

// load loads nvJPEG and returns the file, and the flags that its version
// understands.
func load() (file string, flags uintptr, err error) {
	file, err = dl.Open(dl.Library{
		Name: "nvjpeg",
		Files: map[string][]string{
			"linux": {"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so",
				"/usr/local/cuda/lib64/libnvjpeg.so"},
			"windows": {"nvjpeg64_13.dll", "nvjpeg64_12.dll"},
		}[runtime.GOOS],
		Symbols: []dl.Symbol{
			{Name: "nvjpegGetProperty", Func: &api.getProperty},
			{Name: "nvjpegCreateEx", Func: &api.createEx},
			{Name: "nvjpegDestroy", Func: &api.destroy},
			{Name: "nvjpegGetHardwareDecoderInfo", Func: &api.hardwareDecoderInfo, Optional: true},
			{Name: "nvjpegJpegStateCreate", Func: &api.stateCreate},
			{Name: "nvjpegJpegStateDestroy", Func: &api.stateDestroy},
			{Name: "nvjpegDecodeBatchedInitialize", Func: &api.batchedInitialize},
			{Name: "nvjpegDecodeBatched", Func: &api.decodeBatched},
		},
	})
	if err != nil {
		return "", 0, fmt.Errorf("nvjpeg: %w: no nvJPEG library: %w", device.ErrNotSupported, err)
	}
	major, err := property(propertyMajor)
	if err != nil {
		return "", 0, err
	}
	minor, err := property(propertyMinor)
	if err != nil {
		return "", 0, err
	}
	if major < minMajor {
		return "", 0, fmt.Errorf("nvjpeg: %w: %s is version %d.%d; %d.0 or newer is needed",
			device.ErrNotSupported, file, major, minor, minMajor)
	}
	if major > minMajor || minor >= 1 {
		flags |= flagInterpolate
	}
	return file, flags, nil
}

func property(which uintptr) (int32, error) {
	var v int32
	err := check("nvjpegGetProperty", api.getProperty.Call4(which, uintptr(unsafe.Pointer(&v)), 0, 0))
	return v, err
}
