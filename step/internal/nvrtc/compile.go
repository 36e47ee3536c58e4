package nvrtc

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// Source is what is compiled.
type Source struct {
	Name    string // in messages of the compiler
	Text    string
	Arch    [2]int   // compute capability of the device
	Options []string // of the compiler, such as "--fmad=false"
}

// Version is that of the library, as of CUDA.
func Version() (major, minor int, err error) {
	a, err := library()
	if err != nil {
		return 0, 0, err
	}
	return a.major, a.minor, nil
}

// Compile returns device code for an architecture: a cubin, or PTX text of the next
// older one where the library does not know it. What was compiled before comes from disk.
// It fails with [device.ErrNotSupported] where there is no NVRTC, and with an
// [*Error] that has the compiler's messages where the source does not compile.
// Several goroutines may compile.
func Compile(s Source) (image []byte, err error) {
	a, err := library()
	if err != nil {
		return nil, err
	}
	arch := 10*s.Arch[0] + s.Arch[1]
	if arch <= 0 {
		return nil, fmt.Errorf("nvrtc: %w: compute capability %d.%d", device.ErrArgument, s.Arch[0], s.Arch[1])
	}
	target, known := fmt.Sprintf("--gpu-architecture=sm_%d", arch), true
	if i, found := slices.BinarySearch(a.arches, arch); !found {
		if i == 0 {
			return nil, fmt.Errorf("nvrtc: %w: %s compiles for compute capability %.1f and newer, the device has %.1f",
				device.ErrNotSupported, a.file, float64(a.arches[0])/10, float64(arch)/10)
		}
		target, known = fmt.Sprintf("--gpu-architecture=compute_%d", a.arches[i-1]), false
	}
	options := append([]string{target, "--std=c++17"}, s.Options...)
	cache := newCache(fmt.Sprintf("%d.%d", a.major, a.minor), strings.Join(options, " "), s.Text)
	if image := cache.read(); image != nil {
		return image, nil
	}
	if image, err = a.run(s, options, !known); err != nil {
		return nil, err
	}
	cache.write(image)
	return image, nil
}

func (a *api) run(s Source, options []string, ptx bool) (image []byte, err error) {
	text, name := dl.CString(s.Text), dl.CString(s.Name)
	var program uintptr
	if err := a.call(a.create, uintptr(unsafe.Pointer(&program)), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(name)), 0, 0, 0); err != nil {
		return nil, err
	}
	defer a.destroy.Call(uintptr(unsafe.Pointer(&program)))
	// C keeps none of these pointers, but reads through the list: its strings must
	// stay where they are.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]*byte, len(options))
	for i, o := range options {
		list[i] = dl.CString(o)
		pinner.Pin(list[i])
	}
	err = a.call(a.compile, program, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
	runtime.KeepAlive(list)
	if e, ok := err.(*Error); ok && e.Code == codeCompilation {
		if log, err := a.bytes(program, a.logSize, a.log); err == nil {
			e.Log = strings.TrimSpace(strings.TrimRight(string(log), "\x00"))
		}
	}
	if err != nil {
		return nil, err
	}
	if ptx {
		return a.bytes(program, a.ptxSize, a.ptx)
	}
	return a.bytes(program, a.cubinSize, a.cubin)
}

// bytes is what one function gives the size of, and another the content.
func (a *api) bytes(program uintptr, size, content function) ([]byte, error) {
	var n uintptr
	if err := a.call(size, program, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n == 0 || n > mostBytes {
		return nil, fmt.Errorf("nvrtc: %s: %d bytes", size.name, n)
	}
	data := make([]byte, n)
	return data, a.call(content, program, uintptr(unsafe.Pointer(&data[0])))
}

// kept is an image on disk.
type kept struct {
	Key   []byte `json:"key"`
	Sum   []byte `json:"sum"` // of the image
	Image []byte `json:"image"`
}

// cache is the place of an image on disk. It does its best: what cannot be kept is
// compiled again.
type cache struct {
	path string
	key  []byte
}

func newCache(parts ...string) cache {
	key := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	path, err := cachefile.Path("kernel", parts...)
	if err != nil {
		path = ""
	}
	return cache{path, key[:]}
}

func (c cache) read() []byte {
	if c.path == "" {
		return nil
	}
	data, err := cachefile.Read(c.path)
	if err != nil {
		return nil
	}
	var k kept
	if json.Unmarshal(data, &k) != nil || !bytes.Equal(k.Key, c.key) {
		return nil
	}
	if sum := sha256.Sum256(k.Image); !bytes.Equal(sum[:], k.Sum) {
		return nil
	}
	return k.Image
}

func (c cache) write(image []byte) {
	if c.path != "" {
		sum := sha256.Sum256(image)
		_ = cachefile.Write(c.path, kept{c.key, sum[:], image}) // else it is compiled again
	}
}
