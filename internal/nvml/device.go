package nvml

import (
	"fmt"
	"math"
	"strings"
	"unsafe"
)

// Device is a GPU, from [Devices] or [ByBusID]. It stays valid for the life of the process.
type Device struct {
	api    *api
	handle uintptr
}

// Devices lists the GPUs of this machine, in the order of their bus addresses.
// With a GPU that cannot be reached it fails, and returns the others as well.
func Devices() (list []Device, err error) {
	a, err := library()
	if err != nil {
		return nil, err
	}
	if err := missing(&a.count); err != nil {
		return nil, err
	}
	if err := missing(&a.byIndex); err != nil {
		return nil, err
	}
	var n uint32
	if err := check(&a.count, a.count.Call(uintptr(unsafe.Pointer(&n)))); err != nil {
		return nil, err
	}
	for i := range n {
		d := Device{api: a}
		if e := check(&a.byIndex, a.byIndex.Call(uintptr(i), uintptr(unsafe.Pointer(&d.handle)))); e != nil {
			if err == nil {
				err = fmt.Errorf("GPU %d: %w", i, e)
			}
			continue
		}
		list = append(list, d)
	}
	return list, err
}

// ByBusID finds the GPU at an address of the PCI bus, such as "0000:41:00.0".
func ByBusID(id string) (Device, error) {
	a, err := library()
	if err != nil {
		return Device{}, err
	}
	d := Device{api: a}
	address := append([]byte(id), 0)
	err = check(&a.byBusID, a.byBusID.Call(uintptr(unsafe.Pointer(&address[0])), uintptr(unsafe.Pointer(&d.handle))))
	if err != nil {
		return Device{}, fmt.Errorf("GPU at %s: %w", id, err)
	}
	return d, nil
}

// Name is the vendor's name for the GPU.
func (d Device) Name() (string, error) { return d.text(&d.api.name, nameBytes) }

// UUID is as device.Info has it: "GPU-…".
func (d Device) UUID() (string, error) { return d.text(&d.api.uuid, uuidBytes) }

func (d Device) text(f *function, n int) (string, error) {
	if err := missing(f); err != nil {
		return "", err
	}
	b := make([]byte, n)
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&b[0])), uintptr(n))); err != nil {
		return "", err
	}
	return cut(b), nil
}

// number calls a function that writes one unsigned int.
func (d Device) number(f *function) (int, error) {
	if err := missing(f); err != nil {
		return 0, err
	}
	var v uint32
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&v)))); err != nil {
		return 0, err
	}
	return int(v), nil
}

// numberOf calls one that takes a selector before it.
func (d Device) numberOf(f *function, which uintptr) (int, error) {
	if err := missing(f); err != nil {
		return 0, err
	}
	var v uint32
	if err := check(f, f.Call(d.handle, which, uintptr(unsafe.Pointer(&v)))); err != nil {
		return 0, err
	}
	return int(v), nil
}

// Link is the GPU's PCIe link.
type Link struct {
	Gen, Width       int // now: an idle GPU lowers its generation
	MaxGen, MaxWidth int // that GPU and slot allow
}

// Link asks for the GPU's PCIe link. GPUs without one fail with
// [ErrNotSupported].
func (d Device) Link() (l Link, err error) {
	for _, part := range []struct {
		f  *function
		to *int
	}{
		{&d.api.maxGen, &l.MaxGen}, {&d.api.maxWidth, &l.MaxWidth},
		{&d.api.currGen, &l.Gen}, {&d.api.currWidth, &l.Width},
	} {
		if *part.to, err = d.number(part.f); err != nil {
			return Link{}, err
		}
	}
	return l, nil
}

// Replays counts the packets of the link that were damaged and sent again,
// since the driver was loaded. A link that is well has none.
func (d Device) Replays() (int, error) { return d.number(&d.api.replays) }

// Directions of nvmlDeviceGetPcieThroughput, as the GPU sees them.
const (
	sent     = 0 // NVML_PCIE_UTIL_TX_BYTES
	received = 1 // NVML_PCIE_UTIL_RX_BYTES
)

// Throughput measures what passes the link in each direction, packet headers
// included, in bytes a second. It takes about 20 ms for each.
func (d Device) Throughput() (toDevice, toHost float64, err error) {
	rx, err := d.numberOf(&d.api.throughput, received)
	if err != nil {
		return 0, 0, err
	}
	tx, err := d.numberOf(&d.api.throughput, sent)
	if err != nil {
		return 0, 0, err
	}
	return float64(rx) * 1000, float64(tx) * 1000, nil // NVML counts in KB/s
}

// Persistent reports whether the driver stays loaded while nobody uses the GPU.
// Only Linux knows that.
func (d Device) Persistent() (bool, error) {
	mode, err := d.number(&d.api.persistence)
	return mode != 0, err
}

// MIG reports whether the GPU is divided into instances.
func (d Device) MIG() (bool, error) {
	f := &d.api.mig
	if err := missing(f); err != nil {
		return false, err
	}
	var now, pending uint32
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&now)), uintptr(unsafe.Pointer(&pending)))); err != nil {
		return false, err
	}
	return now != 0, nil
}

// Clocks are in MHz: now, and the most.
type Clocks struct{ SM, Memory, MaxSM, MaxMemory int }

// Values of nvmlClockType_t.
const (
	clockSM     = 1
	clockMemory = 2
)

// Clocks asks for the clocks of the multiprocessors and of the memory.
func (d Device) Clocks() (c Clocks, err error) {
	for _, part := range []struct {
		f     *function
		which uintptr
		to    *int
	}{
		{&d.api.clock, clockSM, &c.SM}, {&d.api.clock, clockMemory, &c.Memory},
		{&d.api.maxClock, clockSM, &c.MaxSM}, {&d.api.maxClock, clockMemory, &c.MaxMemory},
	} {
		if *part.to, err = d.numberOf(part.f, part.which); err != nil {
			return Clocks{}, err
		}
	}
	return c, nil
}

// Reasons is a set of reasons why the clocks are not at their most.
type Reasons uint64

// Reasons. Of these, Idle and Settings are nobody's fault.
const (
	Idle          Reasons = 1 << iota
	Settings              // somebody fixed the clocks
	PowerCap              // the power limit
	Slowdown              // the hardware halved the clocks, or less: heat or power
	SyncBoost             // another GPU of its group
	SoftThermal           // heat, lowered by the driver
	HardThermal           // heat, halved by the hardware
	PowerBrake            // the system's power supply asked for it
	DisplayClocks         // clocks of a display
)

var reasonNames = []string{"idle", "fixed clocks", "power limit", "hardware slowdown", "sync boost",
	"heat (driver)", "heat (hardware)", "power brake", "display clocks"}

// String names the reasons: "power limit, heat (driver)".
func (r Reasons) String() string {
	var list []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	if rest := r &^ (1<<len(reasonNames) - 1); rest != 0 {
		list = append(list, fmt.Sprintf("%#x", uint64(rest)))
	}
	return strings.Join(list, ", ")
}

// Slowdown asks what holds the clocks back now; zero is nothing.
func (d Device) Slowdown() (Reasons, error) {
	f := &d.api.slowdown
	if !f.Ok() {
		f = &d.api.oldSlowdown // until driver 535
	}
	if err := missing(f); err != nil {
		return 0, err
	}
	var r uint64
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&r)))); err != nil {
		return 0, err
	}
	return Reasons(r), nil
}

// utilisation is nvmlUtilization_t.
type utilisation struct{ gpu, memory uint32 }

// Utilisation is the part of the last sample period (a sixth of a second to a
// second) in which a kernel ran, and in which device memory was read or written;
// 1 is all of it.
func (d Device) Utilisation() (gpu, memory float64, err error) {
	f := &d.api.utilisation
	if err := missing(f); err != nil {
		return 0, 0, err
	}
	var u utilisation
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&u)))); err != nil {
		return 0, 0, err
	}
	return float64(u.gpu) / 100, float64(u.memory) / 100, nil
}

// memory is nvmlMemory_t.
type memory struct{ total, free, used uint64 }

// Memory is device memory in bytes. UsedBytes counts what the driver keeps for
// itself.
type Memory struct{ TotalBytes, FreeBytes, UsedBytes int64 }

// Memory asks for the GPU's memory.
func (d Device) Memory() (Memory, error) {
	f := &d.api.memory
	if err := missing(f); err != nil {
		return Memory{}, err
	}
	var m memory
	if err := check(f, f.Call(d.handle, uintptr(unsafe.Pointer(&m)))); err != nil {
		return Memory{}, err
	}
	return Memory{bounded(m.total), bounded(m.free), bounded(m.used)}, nil
}

func bounded(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

const temperatureGPU = 0 // NVML_TEMPERATURE_GPU

// Temperature is that of the GPU, in degrees Celsius.
func (d Device) Temperature() (int, error) { return d.numberOf(&d.api.temperature, temperatureGPU) }

// Power is what the GPU draws, and the most that it may, in watts.
func (d Device) Power() (now, limit float64, err error) {
	mw, err := d.number(&d.api.power)
	if err != nil {
		return 0, 0, err
	}
	most, err := d.number(&d.api.powerLimit)
	if err != nil {
		return 0, 0, err
	}
	return float64(mw) / 1000, float64(most) / 1000, nil
}
