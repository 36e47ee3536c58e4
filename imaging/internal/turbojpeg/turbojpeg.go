// Package turbojpeg binds libjpeg-turbo by its TurboJPEG interface, if the
// library is installed.
package turbojpeg

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// api is the TurboJPEG interface of libjpeg-turbo 2.x, which 3.x still
// has.
type api struct {
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
	tjSamplingUnknown   = -1
	tjErrorFatal        = 1
)

// library loads the library once.
var library = dl.Bind("libturbojpeg", "fast JPEG decoding", load)

func load() (string, *api, error) {
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
	var a api
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
		return "", nil, err
	}
	version := "2.x"
	if a.init3.Ok() {
		version = "3.x"
	}
	a.name = fmt.Sprintf("libturbojpeg %s (%s)", version, file)
	return file, &a, nil
}

// Library names the library, "libturbojpeg 2.x (file)", or says why it is not
// used.
func Library() (name string, err error) {
	a, err := library()
	if err != nil {
		return "", err
	}
	return a.name, nil
}

// Available reports whether there is the library.
func Available() bool {
	_, err := library()
	return err == nil
}

// Decoder is a decompressor for one picture after the other. It lies in the
// heap, so that the library can write the header fields.
type Decoder struct {
	api    *api
	handle uintptr

	width, height, subsampling, colorspace int32
}

// New returns a decoder, or nil where the library is not there.
func New() *Decoder {
	a, err := library()
	if err != nil {
		return nil
	}
	return &Decoder{api: a}
}

// Size returns the size of the picture whose header was read.
func (t *Decoder) Size() (width, height int) { return int(t.width), int(t.height) }

// Open makes a new decompressor in the place of the last. One for all pictures
// would depend on what came before: it keeps the tables of a picture for one
// that lacks its own, and a header with damage leaves it in the middle, so that
// it refuses all that follow. A new one takes half a microsecond.
func (t *Decoder) Open() error {
	t.Close()
	runtime.LockOSThread() // as in Decode
	defer runtime.UnlockOSThread()
	t.handle = t.api.initDecompress.Call()
	if t.handle == 0 {
		return fmt.Errorf("tjInitDecompress: %s", dl.GoString(t.api.getErrorStr2.Call(0)))
	}
	return nil
}

// Close frees the decompressor. A nil Decoder has none.
func (t *Decoder) Close() {
	if t != nil && t.handle != 0 {
		t.api.destroy.Call(t.handle)
		t.handle = 0
	}
}

// Header opens a decompressor, reads the size of a JPEG and tells whether the
// library may be able to make RGB of it. A file whose header it does not
// understand is left to image/jpeg, and so is one of tables alone, of which the
// library reports success and no size.
//
// The library has names for the usual subsamplings alone and reports failure
// for others, after it has noted everything else. It decodes most of them.
func (t *Decoder) Header(data []byte) (able bool, err error) {
	if err := t.Open(); err != nil {
		return false, err
	}
	t.width, t.height, t.subsampling = 0, 0, 0
	rc := t.api.decompressHeader3.Call(t.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(&t.width)), uintptr(unsafe.Pointer(&t.height)),
		uintptr(unsafe.Pointer(&t.subsampling)), uintptr(unsafe.Pointer(&t.colorspace)))
	if int32(rc) != 0 && t.subsampling != tjSamplingUnknown || t.width == 0 {
		return false, nil
	}
	return t.colorspace != tjColorspaceCMYK && t.colorspace != tjColorspaceYCCK, nil
}

// ErrDoubtful: libturbojpeg warned, or failed at an unusual subsampling. A
// harmless oddity, such as extra bytes before a marker, and a picture cut short
// are the same to it.
var ErrDoubtful = errors.New("doubtful JPEG")

// Decode writes the picture whose header was read, at its size or shrunk.
func (t *Decoder) Decode(dst, data []byte, width, height int) error {
	// The library keeps the text of a fatal error for each thread: on another
	// thread it would be that of another picture.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rc := t.api.decompress2.Call(t.handle,
		uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)),
		uintptr(unsafe.Pointer(unsafe.SliceData(dst))),
		uintptr(width), 0, uintptr(height),
		tjPixelFormatRGB, tjFlagStopOnWarning|tjFlagLimitScans)
	switch {
	case int32(rc) == 0:
		return nil
	case t.subsampling == tjSamplingUnknown || int32(t.api.getErrorCode.Call(t.handle)) != tjErrorFatal:
		return ErrDoubtful
	}
	return fmt.Errorf("%w: JPEG %dx%d: %s", errs.ErrDamaged, t.width, t.height,
		dl.GoString(t.api.getErrorStr2.Call(t.handle)))
}
