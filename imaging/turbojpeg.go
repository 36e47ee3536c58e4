package imaging

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// turboAPI is the TurboJPEG interface of libjpeg-turbo 2.x, which 3.x still
// has.
type turboAPI struct {
	name string

	initDecompress, destroy, decompressHeader3, decompress2 dl.Func
	getErrorStr2, getErrorCode                              dl.Func
	init3                                                   dl.Func
}

// Values of turbojpeg.h.
const (
	tjPixelFormatRGB    = 0
	tjFlagStopOnWarning = 8192
	tjFlagLimitScans    = 32768 // refuses progressive files of absurdly many scans
	tjColorspaceCMYK    = 3
	tjColorspaceYCCK    = 4
	tjErrorFatal        = 1
)

// turbo loads the library once; nil when it is not there.
var turbo = sync.OnceValue(func() *turboAPI {
	files := []string{"libturbojpeg.so.0", "libturbojpeg.so"}
	switch runtime.GOOS {
	case "darwin":
		files = []string{
			"libturbojpeg.0.dylib", "libturbojpeg.dylib",
			"/opt/homebrew/opt/jpeg-turbo/lib/libturbojpeg.dylib",
			"/usr/local/opt/jpeg-turbo/lib/libturbojpeg.dylib",
			"/opt/libjpeg-turbo/lib/libturbojpeg.dylib",
		}
	case "windows":
		files = []string{"turbojpeg.dll", "libturbojpeg.dll"}
	}
	var a turboAPI
	file, err := dl.Open(dl.Library{
		Name:  "turbojpeg",
		Files: files,
		Symbols: []dl.Symbol{
			{Name: "tjInitDecompress", Func: &a.initDecompress},
			{Name: "tjDestroy", Func: &a.destroy},
			{Name: "tjDecompressHeader3", Func: &a.decompressHeader3},
			{Name: "tjDecompress2", Func: &a.decompress2},
			{Name: "tjGetErrorStr2", Func: &a.getErrorStr2},
			{Name: "tjGetErrorCode", Func: &a.getErrorCode},
			{Name: "tj3Init", Func: &a.init3, Optional: true},
		},
	})
	if err != nil {
		return nil
	}
	version := "2.x"
	if a.init3.Ok() {
		version = "3.x"
	}
	a.name = fmt.Sprintf("libturbojpeg %s (%s)", version, file)
	return &a
})

// JPEGDecoder names the JPEG decoder that this process uses: "libturbojpeg
// 2.x (file)", or "image/jpeg" when that library is not installed or is
// switched off by PINION_LIB_TURBOJPEG=off.
func JPEGDecoder() string {
	if a := turbo(); a != nil {
		return a.name
	}
	return "image/jpeg"
}

// turboHandle is one decompressor. It lies in the heap as part of a Decoder,
// so that the library can write the header fields.
type turboHandle struct {
	api    *turboAPI
	handle uintptr

	width, height, subsampling, colorspace int32
}

func (t *turboHandle) open() error {
	if t.handle == 0 {
		t.handle = t.api.initDecompress.Call()
	}
	if t.handle == 0 {
		return fmt.Errorf("tjInitDecompress: %s", dl.GoString(t.api.getErrorStr2.Call(0)))
	}
	return nil
}

func (t *turboHandle) close() {
	if t.handle != 0 {
		t.api.destroy.Call(t.handle)
		t.handle = 0
	}
}

// header reads the size of a JPEG and tells whether the library can make RGB
// of it. A file whose header it does not understand is left to image/jpeg as
// well: it may only have unusual subsampling.
func (t *turboHandle) header(data []byte) (able bool, err error) {
	if err := t.open(); err != nil {
		return false, err
	}
	rc := t.api.decompressHeader3.Call(t.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(&t.width)), uintptr(unsafe.Pointer(&t.height)),
		uintptr(unsafe.Pointer(&t.subsampling)), uintptr(unsafe.Pointer(&t.colorspace)))
	if int32(rc) != 0 {
		if int32(t.api.getErrorCode.Call(t.handle)) == tjErrorFatal {
			return false, nil
		}
		return false, t.failure("header")
	}
	return t.colorspace != tjColorspaceCMYK && t.colorspace != tjColorspaceYCCK, nil
}

// decode writes the picture whose header was read.
func (t *turboHandle) decode(dst, data []byte) error {
	rc := t.api.decompress2.Call(t.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(unsafe.SliceData(dst))),
		uintptr(t.width), 0, uintptr(t.height),
		tjPixelFormatRGB, tjFlagStopOnWarning|tjFlagLimitScans)
	if int32(rc) != 0 {
		return t.failure(fmt.Sprintf("%dx%d", t.width, t.height))
	}
	return nil
}

func (t *turboHandle) failure(what string) error {
	return fmt.Errorf("%w: JPEG %s: %s", ErrDamaged, what, dl.GoString(t.api.getErrorStr2.Call(t.handle)))
}
