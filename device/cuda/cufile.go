package cuda

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// cufile is the part of the cuFile library that Pinion calls.
var cufile struct {
	driverOpen, driverGetProperties  dl.Func
	handleRegister, handleDeregister dl.Func
	read, write                      dl.Func
}

// Values of the library's enumerations. abi/cufile.c prints them.
const (
	fileHandleFD = 1

	// Bits of fileProps.nvfs.statusFlags: NVMe drives through nvidia-fs, and by
	// PCI peer-to-peer without it.
	fileNVMeBit    = 4
	fileNVMeP2PBit = 11
)

// fileDescr is CUfileDescr_t.
type fileDescr struct {
	kind   int32
	_      int32
	handle struct { // a union with a pointer
		fd int32
		_  int32
	}
	ops uintptr
}

// fileProps is CUfileDrvProps_t.
type fileProps struct {
	nvfs struct {
		major, minor              uint32
		pollBytes, maxBytes       uint64
		statusFlags, controlFlags uint32
	}
	_                                 uint32
	deviceCache, bufferCache, pinned  uint32
	batchBytes, batchTimeoutMilliSecs uint32
}

func init() {
	dl.Register(dl.Optional{Name: "cuFile", Use: "files straight to the GPU", Open: loadCuFile})
}

// loadCuFile loads cuFile once.
var loadCuFile = sync.OnceValues(func() (file string, err error) {
	return dl.Open(dl.Library{
		Name: "cufile",
		Files: map[string][]string{
			"linux": {"libcufile.so.0", "/usr/local/cuda/lib64/libcufile.so.0"},
		}[runtime.GOOS],
		Symbols: []dl.Symbol{
			{Name: "cuFileDriverOpen", Func: &cufile.driverOpen},
			{Name: "cuFileDriverGetProperties", Func: &cufile.driverGetProperties},
			{Name: "cuFileHandleRegister", Func: &cufile.handleRegister},
			{Name: "cuFileHandleDeregister", Func: &cufile.handleDeregister},
			{Name: "cuFileRead", Func: &cufile.read},
			{Name: "cuFileWrite", Func: &cufile.write},
		},
	})
})

// openCuFile loads and initialises cuFile once, for the life of the process.
var openCuFile = sync.OnceValues(func() (props *fileProps, err error) {
	if _, err := loadCuFile(); err != nil {
		return nil, fmt.Errorf("cuda: cuFile: %w: %w", device.ErrNotSupported, err)
	}
	if err := checkFile("cuFileDriverOpen", cufile.driverOpen.Call()); err != nil {
		return nil, fmt.Errorf("%w: %w", device.ErrNotSupported, err)
	}
	room := new([512]byte) // versions may append
	if err := checkFile("cuFileDriverGetProperties", cufile.driverGetProperties.Call(uintptr(unsafe.Pointer(room)))); err != nil {
		return nil, err
	}
	return (*fileProps)(unsafe.Pointer(room)), nil
})

// checkFile makes an error of a CUfileError_t, which comes back in one register:
// cuFile's code in the lower half, the driver's in the upper.
func checkFile(call string, result uintptr) error {
	code, driver := int32(result), uintptr(uint64(result)>>32)
	if code == 0 {
		return nil
	}
	err := fmt.Errorf("cuda: %s: error %d of cuFile", call, code)
	if driver != 0 {
		err = fmt.Errorf("%w: %w", err, check(call, driver))
	}
	return err
}

// MovesStraight implements [device.FileMover]. cuFile moves bytes straight
// where the kernel module nvidia-fs is loaded, or the driver is set up for
// PCI peer-to-peer, and the file is on an NVMe drive. (It does on some network
// file systems, too, but nothing tells which of them are set up for it.) The
// library is only loaded when the rest is there: it starts threads and writes
// a log.
func (d *Device) MovesStraight(f *os.File) error {
	no := func(why string) error {
		return fmt.Errorf("cuda: cuFile not taken, %w: %s", device.ErrNotSupported, why)
	}
	_, err := os.Stat("/proc/driver/nvidia-fs/stats")
	module := err == nil
	params, _ := os.ReadFile("/proc/driver/nvidia/params")
	if !module && !bytes.Contains(params, []byte("RMForceStaticBar1=1")) {
		return no("nvidia-fs is not loaded and the driver is not set up for peer-to-peer, so it would copy through host memory")
	}
	if drive, err := onNVMe(f); err != nil || !drive {
		return no("the file is not on an NVMe drive")
	}
	if err := d.enter(); err != nil {
		return err
	}
	defer d.leave()
	props, err := openCuFile()
	switch {
	case err != nil:
		return err
	case props.nvfs.statusFlags&(1<<fileNVMeP2PBit) != 0, module && props.nvfs.statusFlags&(1<<fileNVMeBit) != 0:
		return nil
	}
	return no("the library does not support NVMe drives here")
}

// MoveFile implements [device.FileMover].
func (d *Device) MoveFile(f *os.File) (device.File, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	defer d.leave()
	if _, err := openCuFile(); err != nil {
		return nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	m := &movedFile{dev: d}
	ctlErr := conn.Control(func(fd uintptr) {
		descr := fileDescr{kind: fileHandleFD}
		descr.handle.fd = int32(fd)
		err = checkFile("cuFileHandleRegister", cufile.handleRegister.Call(
			uintptr(unsafe.Pointer(&m.handle)), uintptr(unsafe.Pointer(&descr))))
	})
	if ctlErr != nil {
		return nil, ctlErr
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return m, nil
}

// movedFile is a registered file.
type movedFile struct {
	dev    *Device
	handle uintptr
	closed sync.Once
}

func (m *movedFile) ReadTo(dst device.Ptr, n, offset int64) (int64, error) {
	return m.move("cuFileRead", cufile.read, dst, n, offset)
}

func (m *movedFile) WriteFrom(src device.Ptr, n, offset int64) (int64, error) {
	return m.move("cuFileWrite", cufile.write, src, n, offset)
}

func (m *movedFile) move(call string, f dl.Func, p device.Ptr, n, offset int64) (int64, error) {
	if n < 0 || offset < 0 {
		return 0, fmt.Errorf("cuda: %s: %w: %d bytes at offset %d", call, device.ErrArgument, n, offset)
	}
	if err := m.dev.enter(); err != nil {
		return 0, err
	}
	defer m.dev.leave()
	// The library may crash on an address that the driver does not know.
	if err := check("cuPointerGetAttribute", attributeOf(p)); err != nil {
		return 0, fmt.Errorf("cuda: %s: %w: %#x: %w", call, device.ErrPointer, uint64(p), err)
	}
	moved := int64(f.Call(m.handle, uintptr(p), uintptr(n), uintptr(offset), 0))
	switch {
	case moved == -1:
		return 0, fmt.Errorf("cuda: %s: the system failed on %d bytes at offset %d", call, n, offset)
	case moved < 0:
		return 0, fmt.Errorf("cuda: %s: error %d of cuFile on %d bytes at offset %d", call, -moved, n, offset)
	}
	return moved, nil
}

// attributeOf asks for the kind of memory at p.
func attributeOf(p device.Ptr) uintptr {
	var kind uint32
	return api.pointerGetAttribute.Call(uintptr(unsafe.Pointer(&kind)), pointerMemoryType, uintptr(p))
}

func (m *movedFile) Close() error {
	m.closed.Do(func() { cufile.handleDeregister.Call(m.handle) })
	return nil
}

var _ device.FileMover = (*Device)(nil)
