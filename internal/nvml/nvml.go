package nvml

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/pinion-gpu/pinion/internal/dl"
)

var (
	// ErrNotSupported: this GPU, driver or machine does not tell that.
	ErrNotSupported = errors.New("not supported")
	// ErrLost: the GPU fell off the bus or needs a reset.
	ErrLost = errors.New("the GPU is lost")
)

// Values of nvmlReturn_t.
const (
	codeUninitialised    = 1
	codeNotSupported     = 3
	codeNoPermission     = 4
	codeNotFound         = 6
	codeInsufficientSize = 7
	codeNoDriver         = 9
	codeNoFunction       = 13
	codeLost             = 15
	codeResetRequired    = 16
	codeOperatingSystem  = 17
	codeMismatch         = 18
)

// reasons are what codes mean, in words.
var reasons = map[int]string{
	codeUninitialised:   "NVML is not initialised",
	codeNotSupported:    "this GPU does not tell",
	codeNoPermission:    "no permission",
	codeNotFound:        "not found",
	codeNoDriver:        "the NVIDIA driver is not loaded",
	codeNoFunction:      "the driver lacks the function",
	codeLost:            "the GPU has fallen off the bus",
	codeResetRequired:   "the GPU needs a reset",
	codeOperatingSystem: "the system blocks the GPU's control device",
	codeMismatch:        "the library is of another version than the loaded driver: reboot, or reload the driver",
}

// Error is a call that failed.
type Error struct {
	Call string // "nvmlDeviceGetMemoryInfo"
	Code int    // of nvmlReturn_t
}

func (e *Error) Error() string {
	if reason, ok := reasons[e.Code]; ok {
		return fmt.Sprintf("%s: %s (code %d)", e.Call, reason, e.Code)
	}
	return fmt.Sprintf("%s: code %d", e.Call, e.Code)
}

// Is makes codes match the sentinels of this package.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotSupported:
		return e.Code == codeNotSupported || e.Code == codeNoFunction
	case ErrLost:
		return e.Code == codeLost || e.Code == codeResetRequired
	}
	return false
}

// function is one function of the library, with its name for errors.
type function struct {
	name string
	dl.Func
}

// api is the table of the library.
type api struct {
	initialise, driverVersion, confidential       function
	count, byIndex, byBusID                       function
	name, uuid                                    function
	currGen, currWidth, maxGen, maxWidth, replays function
	throughput                                    function
	persistence, mig                              function
	clock, maxClock, slowdown, oldSlowdown        function
	utilisation, memory                           function
	temperature, power, powerLimit                function
	compute, graphics, processUse                 function
}

// library loads and initialises NVML, once for the process.
var library = dl.Bind("NVML", "link and state of GPUs", func() (string, *api, error) {
	a := &api{}
	var symbols []dl.Symbol
	bind := func(f *function, name string, optional bool) {
		f.name = name
		symbols = append(symbols, dl.Symbol{Name: name, Func: &f.Func, Optional: optional})
	}
	bind(&a.initialise, "nvmlInit_v2", false)
	bind(&a.byBusID, "nvmlDeviceGetHandleByPciBusId_v2", false)
	bind(&a.currGen, "nvmlDeviceGetCurrPcieLinkGeneration", false)
	bind(&a.currWidth, "nvmlDeviceGetCurrPcieLinkWidth", false)
	bind(&a.maxGen, "nvmlDeviceGetMaxPcieLinkGeneration", false)
	bind(&a.maxWidth, "nvmlDeviceGetMaxPcieLinkWidth", false)
	for _, s := range []struct {
		f    *function
		name string
	}{
		{&a.driverVersion, "nvmlSystemGetDriverVersion"},
		{&a.confidential, "nvmlSystemGetConfComputeState"},
		{&a.count, "nvmlDeviceGetCount_v2"},
		{&a.byIndex, "nvmlDeviceGetHandleByIndex_v2"},
		{&a.name, "nvmlDeviceGetName"},
		{&a.uuid, "nvmlDeviceGetUUID"},
		{&a.replays, "nvmlDeviceGetPcieReplayCounter"},
		{&a.throughput, "nvmlDeviceGetPcieThroughput"},
		{&a.persistence, "nvmlDeviceGetPersistenceMode"},
		{&a.mig, "nvmlDeviceGetMigMode"},
		{&a.clock, "nvmlDeviceGetClockInfo"},
		{&a.maxClock, "nvmlDeviceGetMaxClockInfo"},
		{&a.slowdown, "nvmlDeviceGetCurrentClocksEventReasons"},
		{&a.oldSlowdown, "nvmlDeviceGetCurrentClocksThrottleReasons"},
		{&a.utilisation, "nvmlDeviceGetUtilizationRates"},
		{&a.memory, "nvmlDeviceGetMemoryInfo"},
		{&a.temperature, "nvmlDeviceGetTemperature"},
		{&a.power, "nvmlDeviceGetPowerUsage"},
		{&a.powerLimit, "nvmlDeviceGetEnforcedPowerLimit"},
		{&a.compute, "nvmlDeviceGetComputeRunningProcesses_v3"},
		{&a.graphics, "nvmlDeviceGetGraphicsRunningProcesses_v3"},
		{&a.processUse, "nvmlDeviceGetProcessUtilization"},
	} {
		bind(s.f, s.name, true)
	}
	file, err := dl.Open(dl.Library{
		Name: "nvml",
		Files: map[string][]string{
			"linux":   {"libnvidia-ml.so.1"},
			"windows": {"nvml.dll"},
		}[runtime.GOOS],
		Symbols: symbols,
	})
	if err != nil {
		return "", nil, err
	}
	if err := check(&a.initialise, a.initialise.Call()); err != nil {
		return "", nil, err
	}
	return file, a, nil
})

// check turns what a function returned into an error.
func check(f *function, code uintptr) error {
	if code := int(int32(code)); code != 0 {
		return &Error{f.name, code}
	}
	return nil
}

// missing is the error of a function that the driver lacks.
func missing(f *function) error {
	if f.Ok() {
		return nil
	}
	return &Error{f.name, codeNoFunction}
}

// Open loads NVML, once for the process; the other functions do so themselves.
// The error says why there is none.
func Open() error {
	_, err := library()
	return err
}

// Buffer sizes, in bytes with the terminating zero, as nvml.h has them.
const (
	driverVersionBytes = 80
	nameBytes          = 96
	uuidBytes          = 96
)

// cut ends text at its terminating zero.
func cut(text []byte) string {
	s, _, _ := strings.Cut(string(text), "\x00")
	return s
}
