package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/units"
)

// machine is what checks look at: the files of the system, and the facts that
// probes gathered.
type machine struct {
	system
	request  request
	deadline time.Time // of all probes
	checks   []Check   // that this run has

	// start runs a probe in a process of its own and returns the facts that it
	// printed. Nil: there are no processes.
	start func(ctx context.Context, name string, req request) ([]byte, error)

	device    outcome[deviceFacts]
	nvml      outcome[nvmlFacts]
	libraries outcome[[]libraryFact]
	copies    outcome[copyFacts]
	files     outcome[filesFacts]
	disk      outcome[diskFacts]
}

// request is what a probe is told.
type request struct {
	Device   string `json:"device"`
	Path     string `json:"path"`
	PCIBusID string `json:"pci_bus_id,omitempty"` // of the device, once it is known
}

func newMachine(s system, o Options) *machine {
	m := &machine{system: s, request: request{Device: o.Device, Path: o.Path}, deadline: time.Now().Add(totalLimit)}
	m.device.set("device", "opening the device", 8*time.Second)
	m.nvml.set("nvml", "asking NVML", 4*time.Second)
	m.libraries.set("libraries", "loading libraries", 4*time.Second)
	m.copies.set("copies", "measuring copies", 10*time.Second)
	m.files.set("files", "asking cuFile", 5*time.Second)
	m.disk.set("disk", "reading from the disk", 5*time.Second)
	return m
}

// probe finds one by its name.
func (m *machine) probe(name string) gatherer {
	for _, p := range []gatherer{&m.device, &m.nvml, &m.libraries, &m.copies, &m.files, &m.disk} {
		if p.called() == name {
			return p
		}
	}
	panic("doctor: no probe " + name)
}

type gatherer interface {
	called() string
	gather(ctx context.Context, m *machine, say func(string))
	instead(check string) (Result, bool)
}

// outcome is what a probe gathered, or why it did not.
type outcome[T any] struct {
	name, title string
	limit       time.Duration
	done        bool
	facts       T
	err         error
	told        string // the check that said it
}

func (o *outcome[T]) set(name, title string, limit time.Duration) {
	o.name, o.title, o.limit = name, title, limit
}

func (o *outcome[T]) called() string { return o.name }

// gather runs the probe, once.
func (o *outcome[T]) gather(ctx context.Context, m *machine, say func(string)) {
	if o.done {
		return
	}
	o.done = true
	if m.start == nil {
		o.err = errNoChild
		return
	}
	if o.name != "device" { // NVML and the copies ask about the device that this found
		m.device.gather(ctx, m, say)
		m.request.PCIBusID = m.device.facts.Info.PCIBusID
	}
	left := time.Until(m.deadline)
	if left <= 0 {
		o.err = errNoTime
		return
	}
	say(o.title)
	limited, cancel := context.WithTimeout(ctx, min(o.limit, left))
	defer cancel()
	text, err := m.start(limited, o.name, m.request)
	switch {
	case err != nil && limited.Err() != nil && left < o.limit: // the run's time is over, not the probe's
		err = errNoTime
	case err == nil:
		err = json.Unmarshal(text, &o.facts)
	}
	o.err = err
}

var errNoTime = &refusedError{"no time was left: a run takes " + units.Duration(totalLimit) + " at most"}

var errNoChild = errors.New("this program runs no probes")

// A probe that came to no end.
type brokenError struct {
	what string // what happened
	said string // on standard error
	lost bool   // the GPU is gone
}

func (e *brokenError) Error() string { return e.what }

// A probe that could not do its work: the reason why.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// instead is what a check says where the probe that it needs failed. The first one
// tells it, the others refer to that.
func (o *outcome[T]) instead(check string) (Result, bool) {
	var broken *brokenError
	switch {
	case o.err == nil:
		return Result{}, false
	case o.told != "" && o.told != check:
		return skipped("see %s", o.told), true
	case errors.As(o.err, &broken):
		o.told = check
		measured := fmt.Sprintf("%s: %s", o.title, broken.what)
		if broken.said != "" {
			measured += ": " + oneLine(broken.said)
		}
		why, remedy := "Every program that asks the same may end in the same way; here it was a process of its own.", brokenRemedies[o.name]
		if broken.lost {
			why, remedy = "Programs that used the GPU have failed, and new ones cannot open it.", lostRemedy
		}
		return fail(measured, why, remedy), true
	}
	return skipped("%s", o.err.Error()), true
}

const lostRemedy = "`sudo dmesg | grep -i xid` says when (79: it fell off the bus). Reboot; if it happens again, look at power cables, the riser, heat, and the card itself."

// brokenRemedies are what to do where a probe hung or crashed.
var brokenRemedies = map[string]string{
	"device":    "Look for errors of the driver: `sudo dmesg | grep -i -e nvrm -e xid`. A GPU that is wedged needs `sudo nvidia-smi --gpu-reset -i N` with nobody on it, or a reboot.",
	"nvml":      "Try `nvidia-smi`, which asks the same library. If it hangs too: `sudo dmesg | grep -i -e nvrm -e xid`, then a reboot. PINION_LIB_NVML=off does without.",
	"libraries": "Switch off the library that is at fault: one of PINION_LIB_CUDA, PINION_LIB_CUFILE, PINION_LIB_NVJPEG, PINION_LIB_NVML, PINION_LIB_TURBOJPEG set to off.",
	"copies":    "Look for errors of the driver: `sudo dmesg | grep -i -e nvrm -e xid -e aer`. Try again while nothing else runs: a busy machine may be too slow.",
	"files":     "Do without cuFile: PINION_LIB_CUFILE=off. Look for a disk or a server that does not answer: `sudo dmesg | tail -50`, `mount`.",
	"disk":      "Look for a disk or a server that does not answer: `sudo dmesg | tail -50`, `mount`, `ps -eo pid,stat,comm | grep ' D'`.",
}

// known is a fact, or the reason why it is not known.
type known[T any] struct {
	Value  T      `json:"value"`
	Reason string `json:"reason,omitempty"`
}

// know makes one of a call.
func know[T any](v T, err error) known[T] {
	if err != nil {
		var none T
		return known[T]{none, oneLine(err.Error())}
	}
	return known[T]{Value: v}
}

// deviceFacts are about the device, by opening it.
type deviceFacts struct {
	Info         device.Info   `json:"info"`
	Memory       device.Memory `json:"memory"`
	OpenSeconds  float64       `json:"open_seconds"`
	Capabilities []string      `json:"capabilities"`
	Passed       string        `json:"passed"`    // why a better one was not taken
	NoDriver     bool          `json:"no_driver"` // there is no driver for that
	Error        string        `json:"error"`     // why it could not be opened; then nothing else is known
	NoName       bool          `json:"no_name"`   // which is that no device can be called so
	Peers        []peerFact    `json:"peers"`     // the other devices of its backend
	Model        known[string] `json:"model"`     // when that of the link was measured
}

// filesFacts are about files at the path of the data, and the device.
type filesFacts struct {
	Straight known[bool] `json:"straight"` // they move between disk and device
}

type peerFact struct {
	ID     string `json:"id"`
	Access bool   `json:"access"`
}

// nvmlFacts are what NVML says of the device while it is idle.
type nvmlFacts struct {
	Driver       known[string]         `json:"driver"`
	Confidential known[bool]           `json:"confidential"`
	Persistent   known[bool]           `json:"persistent"`
	MIG          known[bool]           `json:"mig"`
	Replays      known[int]            `json:"replays"`
	Processes    known[[]nvml.Process] `json:"processes"`
	Utilisation  known[float64]        `json:"utilisation"`
}

// libraryFact is an optional library.
type libraryFact struct {
	Name   string `json:"name"`
	Use    string `json:"use"`
	File   string `json:"file,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// copyFacts are measured. Rates are in bytes a second.
type copyFacts struct {
	Bytes    int64             `json:"bytes"` // of a copy
	Pinned   known[rates]      `json:"pinned"`
	Pageable rates             `json:"pageable"`
	Staged   known[stagedRate] `json:"staged"`
	Loaded   known[loadFacts]  `json:"loaded"`
	Pin      known[pinFacts]   `json:"pin"`
	Threads  []threadRate      `json:"threads"` // copies in host memory
}

type rates struct {
	ToDevice float64 `json:"to_device"`
	ToHost   float64 `json:"to_host"`
}

type stagedRate struct {
	Copiers int     `json:"copiers"`
	Rate    float64 `json:"rate"` // to the device
}

// loadFacts are what NVML says while copies run.
type loadFacts struct {
	Link    nvml.Link    `json:"link"`    // the most that was seen
	Reasons nvml.Reasons `json:"reasons"` // that held all the time
	Clocks  nvml.Clocks  `json:"clocks"`
}

// pinFacts are seconds for Bytes of memory, with huge pages and without.
type pinFacts struct {
	Bytes int64   `json:"bytes"`
	Huge  float64 `json:"huge"`
	Small float64 `json:"small"`
}

type threadRate struct {
	Threads int     `json:"threads"`
	Rate    float64 `json:"rate"`
}

type diskFacts struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	File    string  `json:"file"`   // that was read; "" for one that was written for that
	Direct  bool    `json:"direct"` // past the page cache
	Note    string  `json:"note"`
}

// hasGPU reports whether the device is a GPU with a link to the host. Checks that
// ask for one have the device probe among their needs.
func (m *machine) hasGPU() bool {
	d := m.device.facts
	return d.Info.ID != "" && !d.Info.Integrated
}

// see is a result that refers to a check, or tells its reason where this run does not
// have that check.
func (m *machine) see(check, reason string) Result {
	if slices.ContainsFunc(m.checks, func(c Check) bool { return c.Name == check }) {
		reason = "see " + check
	}
	return skipped("%s", reason)
}

// noGPU is the reason of checks that need one.
func (m *machine) noGPU() Result {
	d := m.device.facts
	switch {
	case d.Error != "":
		return m.see("driver", m.request.Device+" cannot be opened: "+d.Error)
	case m.request.Device == "auto" && d.Info.Backend == "host" && m.gpusOnBus() > 0:
		return m.see("driver", "no GPU can be used: "+d.Passed)
	case d.Info.Backend == "host":
		return skipped("no GPU is used")
	}
	return skipped("%s shares the host's memory", d.Info.ID)
}

func rate(v float64) string { return units.Rate(v) }
