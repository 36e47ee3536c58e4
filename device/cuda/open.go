package cuda

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/spans"
)

// minDriver is the oldest driver API that is accepted: 11.2 is the first with
// everything Pinion relies on, and it reads the kernels' PTX.
const minDriver = 11020

func init() {
	device.Register(device.Backend{Name: "cuda", Rank: 10, Open: openSpec, List: list})
	dl.Register(dl.Optional{Name: "CUDA driver", Use: "NVIDIA GPUs", Open: func() (string, error) {
		_, err := driver()
		return driverFile, err
	}})
}

// driverFile is the file that driver loaded.
var driverFile string

// driver loads and initialises the driver once for the process and returns
// its API version, such as 13000.
var driver = sync.OnceValues(func() (int, error) {
	file, err := dl.Open(library)
	if err != nil {
		return 0, fmt.Errorf("cuda: %w: no NVIDIA driver: %w", device.ErrUnavailable, err)
	}
	driverFile = file
	var version int32
	if err := check("cuDriverGetVersion", api.driverGetVersion.Call(uintptr(unsafe.Pointer(&version)))); err != nil {
		return 0, fmt.Errorf("cuda: %w: %w", device.ErrUnavailable, err)
	}
	if version < minDriver {
		return 0, fmt.Errorf("cuda: %w: the driver (%s) is for CUDA %s; %s or newer is needed",
			device.ErrUnavailable, file, versionString(int(version)), versionString(minDriver))
	}
	if err := check("cuInit", api.initialise.Call(0)); err != nil {
		if is(err, resultNoDevice) {
			return 0, errNoGPU
		}
		return 0, fmt.Errorf("cuda: %w: %w", device.ErrUnavailable, err)
	}
	return int(version), nil
})

var errNoGPU = fmt.Errorf("cuda: %w: the driver is installed, but there is no GPU", device.ErrUnavailable)

func versionString(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

func count() (int, error) {
	if _, err := driver(); err != nil {
		return 0, err
	}
	var n int32
	if err := check("cuDeviceGetCount", api.deviceGetCount.Call(uintptr(unsafe.Pointer(&n)))); err != nil {
		return 0, fmt.Errorf("cuda: %w: %w", device.ErrUnavailable, err)
	}
	if n == 0 {
		return 0, errNoGPU
	}
	return int(n), nil
}

func list() ([]string, error) {
	n, err := count()
	if err != nil {
		return nil, err
	}
	names := make([]string, n)
	for i := range names {
		names[i] = "cuda:" + strconv.Itoa(i)
	}
	return names, nil
}

func openSpec(spec string) (device.Device, error) {
	index := 0
	if spec != "" {
		var err error
		if index, err = strconv.Atoi(spec); err != nil || index < 0 {
			return nil, fmt.Errorf("cuda: %w: %q is not the number of a GPU", device.ErrUnavailable, spec)
		}
	}
	return Open(index)
}

// Open opens the GPU with that index among those the driver shows (see
// CUDA_VISIBLE_DEVICES). The same GPU may be opened more than once: each
// [Device] then accounts for its own memory.
func Open(index int) (*Device, error) {
	n, err := count()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("cuda: %w: cuda:%d does not exist; the driver shows %d GPU(s)",
			device.ErrUnavailable, index, n)
	}
	d := &Device{
		hostAllocs: map[uintptr]struct{}{},
		chunks:     map[uint64]int64{},
		async:      map[uint64]struct{}{},
		managed:    map[uint64]int64{},
		streams:    map[*stream]struct{}{},
		events:     map[*event]struct{}{},
		modules:    map[*module]struct{}{},
		graphs:     map[*graph]struct{}{},
		peers:      map[uint64]bool{},
		opened:     map[uint64]struct{}{},
		serial:     opened.Add(1),
	}
	if err := check("cuDeviceGet", api.deviceGet.Call(uintptr(unsafe.Pointer(&d.handle)), uintptr(index))); err != nil {
		return nil, fmt.Errorf("cuda: %w: %w", device.ErrUnavailable, err)
	}
	d.access = accessDesc{location: location{locationDevice, d.handle}, flags: accessReadWrite}
	if err := check("cuDevicePrimaryCtxRetain",
		api.primaryCtxRetain.Call(uintptr(unsafe.Pointer(&d.context)), uintptr(d.handle))); err != nil {
		reason := ""
		if is(err, resultOutOfMemory) {
			reason = "not enough free GPU memory for a context: "
		}
		return nil, fmt.Errorf("cuda: %w: cuda:%d: %s%w", device.ErrUnavailable, index, reason, err)
	}
	if last := lastDevice.Swap(int64(index) + 1); last != 0 && last != int64(index)+1 {
		severalDevices.Store(true)
	}
	if err := d.describe(index); err != nil {
		api.primaryCtxRelease.Call(uintptr(d.handle))
		return nil, fmt.Errorf("cuda: %w: %w", device.ErrUnavailable, err)
	}
	return d, nil
}

// lastDevice is the index, plus one, of the device that was opened last.
var lastDevice atomic.Int64

// describe fills in d.info.
func (d *Device) describe(index int) error {
	version, _ := driver()
	d.info = device.Info{
		ID:              "cuda:" + strconv.Itoa(index),
		Backend:         "cuda",
		DriverVersion:   versionString(version),
		Multiprocessors: d.attribute(attrMultiprocessors),
		CopyEngines:     d.attribute(attrAsyncEngines),
		Integrated:      d.attribute(attrIntegrated) != 0,
		ComputeCapability: [2]int{
			d.attribute(attrComputeMajor), d.attribute(attrComputeMinor),
		},
	}
	d.maxPitch = int64(d.attribute(attrMaxPitch))
	d.canMap = d.attribute(attrCanMapHostMemory) != 0
	d.describeManaged()
	d.canReserve = d.attribute(attrVirtualMemory) != 0
	for _, f := range []dl.Func{api.memAddressReserve, api.memAddressFree, api.memCreate, api.memRelease,
		api.memMap, api.memUnmap, api.memSetAccess, api.memGetAllocationGranularity} {
		d.canReserve = d.canReserve && f.Ok()
	}
	d.canAllocAsync = d.attribute(attrMemoryPools) != 0
	for _, f := range []dl.Func{api.memPoolCreate, api.memPoolDestroy, api.memPoolSetAttribute, api.memPoolTrimTo,
		api.memAllocFromPoolAsync, api.memFreeAsync} {
		d.canAllocAsync = d.canAllocAsync && f.Ok()
	}

	text := make([]byte, 256)
	if err := check("cuDeviceGetName", api.deviceGetName.Call(
		uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), uintptr(d.handle))); err != nil {
		return err
	}
	d.info.Name = cut(text)
	var total uint64
	if err := check("cuDeviceTotalMem", api.deviceTotalMem.Call(
		uintptr(unsafe.Pointer(&total)), uintptr(d.handle))); err != nil {
		return err
	}
	d.info.TotalBytes = int64(total)
	var uuid [16]byte
	if api.deviceGetUUID.Ok() && api.deviceGetUUID.Call(uintptr(unsafe.Pointer(&uuid)), uintptr(d.handle)) == 0 {
		d.info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	}
	d.info.NUMANode = -1
	if api.deviceGetPCIBusID.Call(uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), uintptr(d.handle)) == 0 {
		d.info.PCIBusID = cut(text)
		d.info.Link = pcieLink(d.info.PCIBusID)
		d.info.NUMANode = numaNode(d.info.PCIBusID)
	}
	return nil
}

// attribute returns a device attribute, or 0 when the driver does not know it.
func (d *Device) attribute(attr uintptr) int {
	var v int32
	if api.deviceGetAttribute.Call(uintptr(unsafe.Pointer(&v)), attr, uintptr(d.handle)) != 0 {
		return 0
	}
	return int(v)
}

// cut ends text at its terminating zero.
func cut(text []byte) string {
	s, _, _ := strings.Cut(string(text), "\x00")
	return s
}

// numaNode asks the kernel for the node of a PCI device; -1 is unknown.
func numaNode(busID string) int {
	if runtime.GOOS != "linux" {
		return -1
	}
	text, err := os.ReadFile("/sys/bus/pci/devices/" + strings.ToLower(busID) + "/numa_node")
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return node
}

// Device is an NVIDIA GPU.
type Device struct {
	handle  int32
	context uintptr
	info    device.Info

	canMap, canReserve, canAllocAsync bool
	migration                         device.Migration // NoMigration: no managed memory

	maxPitch int64  // of a box, in bytes
	serial   uint64 // place in the order in which devices were opened

	// mu is held for reading during calls that use the context or memory and
	// for writing in Close, so that nothing is called on what is gone.
	mu     sync.RWMutex
	closed bool

	managing sync.Mutex // held while managed memory is allocated
	others   int64      // bytes of the device that were others' when it was allocated last

	// owned guards what belongs to the device and has to be given back.
	owned      sync.Mutex
	live       spans.Set           // device and managed memory
	async      map[uint64]struct{} // what of it came from pool
	managed    map[uint64]int64    // what of it is managed, and its size
	pool       uintptr             // the driver's, for AllocAsync; made when needed
	registered spans.Set           // host memory pinned by Pin
	hostAllocs map[uintptr]struct{}
	reserved   spans.Set        // address space of the Mapper
	mapped     spans.Set        // mappings in it
	chunks     map[uint64]int64 // physical memory of the Mapper, and its size
	access     accessDesc       // of the Mapper's mappings: for this device; never changes
	streams    map[*stream]struct{}
	events     map[*event]struct{}
	modules    map[*module]struct{}
	graphs     map[*graph]struct{}
	peers      map[uint64]bool     // by serial: whether this device reaches that one's memory
	opened     map[uint64]struct{} // memory of other processes
	word       uint64              // that signals are copied from; 0 before the first
	guard      *stream             // one of streams, that waits for what other devices copy from this one; made when needed
}

var errClosed = fmt.Errorf("cuda: %w", device.ErrClosed)

// pcieLink asks the management library; without it the link is unknown.
func pcieLink(busID string) device.Link {
	gpu, err := nvml.ByBusID(busID)
	if err != nil {
		return device.Link{}
	}
	l, err := gpu.Link()
	if err != nil {
		return device.Link{}
	}
	return device.Link{Kind: "PCIe", Gen: l.Gen, Width: l.Width, MaxGen: l.MaxGen, MaxWidth: l.MaxWidth}
}
