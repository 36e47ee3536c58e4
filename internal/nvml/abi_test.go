package nvml

import (
	_ "embed"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// abi is what testdata/abi/nvml.c printed with the vendor's header.
//
//go:embed testdata/abi/nvml.txt
var abi []byte

// TestABI compares the values and layouts that the binding is written with to
// those of the vendor's header.
func TestABI(t *testing.T) {
	var (
		d  Device
		cc confidentialState
		u  utilisation
		m  memory
		p  processInfo
		s  processSample
	)
	testkit.ABI(t, abi, map[string]uintptr{
		"codeUninitialised":    codeUninitialised,
		"codeNotSupported":     codeNotSupported,
		"codeNoPermission":     codeNoPermission,
		"codeNotFound":         codeNotFound,
		"codeInsufficientSize": codeInsufficientSize,
		"codeNoDriver":         codeNoDriver,
		"codeNoFunction":       codeNoFunction,
		"codeLost":             codeLost,
		"codeResetRequired":    codeResetRequired,
		"codeOperatingSystem":  codeOperatingSystem,
		"codeMismatch":         codeMismatch,
		"driverVersionBytes":   driverVersionBytes,
		"nameBytes":            nameBytes,
		"uuidBytes":            uuidBytes,
		"sent":                 sent,
		"received":             received,
		"clockSM":              clockSM,
		"clockMemory":          clockMemory,
		"temperatureGPU":       temperatureGPU,
		"confidentialOn":       confidentialOn,
		"Idle":                 uintptr(Idle),
		"Settings":             uintptr(Settings),
		"PowerCap":             uintptr(PowerCap),
		"Slowdown":             uintptr(Slowdown),
		"SyncBoost":            uintptr(SyncBoost),
		"SoftThermal":          uintptr(SoftThermal),
		"HardThermal":          uintptr(HardThermal),
		"PowerBrake":           uintptr(PowerBrake),
		"DisplayClocks":        uintptr(DisplayClocks),

		// Persistent, MIG and number rely on these.
		"persistent":     1,
		"divided":        1,
		"sizeof(number)": 4,
		"sizeof(mode)":   4,

		"sizeof(Device.handle)":                   unsafe.Sizeof(d.handle),
		"sizeof(Reasons)":                         unsafe.Sizeof(Reasons(0)),
		"sizeof(confidentialState)":               unsafe.Sizeof(cc),
		"offsetof(confidentialState.feature)":     unsafe.Offsetof(cc.feature),
		"sizeof(utilisation)":                     unsafe.Sizeof(u),
		"offsetof(utilisation.gpu)":               unsafe.Offsetof(u.gpu),
		"offsetof(utilisation.memory)":            unsafe.Offsetof(u.memory),
		"sizeof(memory)":                          unsafe.Sizeof(m),
		"offsetof(memory.total)":                  unsafe.Offsetof(m.total),
		"offsetof(memory.free)":                   unsafe.Offsetof(m.free),
		"offsetof(memory.used)":                   unsafe.Offsetof(m.used),
		"sizeof(processInfo)":                     unsafe.Sizeof(p),
		"offsetof(processInfo.pid)":               unsafe.Offsetof(p.pid),
		"offsetof(processInfo.used)":              unsafe.Offsetof(p.used),
		"offsetof(processInfo.gpuInstanceID)":     unsafe.Offsetof(p.gpuInstanceID),
		"offsetof(processInfo.computeInstanceID)": unsafe.Offsetof(p.computeInstanceID),
		"sizeof(processSample)":                   unsafe.Sizeof(s),
		"offsetof(processSample.pid)":             unsafe.Offsetof(s.pid),
		"offsetof(processSample.time)":            unsafe.Offsetof(s.time),
		"offsetof(processSample.sm)":              unsafe.Offsetof(s.sm),
		"offsetof(processSample.memory)":          unsafe.Offsetof(s.memory),
	})
}
