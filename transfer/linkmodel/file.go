package linkmodel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/internal/cpuname"
)

// Machine is what a model is good for: on any other it is stale.
type Machine struct {
	Device        string `json:"device"` // the vendor's name
	UUID          string `json:"uuid,omitempty"`
	DriverVersion string `json:"driver_version,omitempty"`
	Link          string `json:"link,omitempty"`
	Processor     string `json:"processor"`
	Processors    int    `json:"processors"` // that this process may use at once
	Platform      string `json:"platform"`
	SlotBytes     int64  `json:"slot_bytes"`
}

// ErrNoModel: there is no model for this machine and device, or the file that
// should hold it does not.
var ErrNoModel = errors.New("transfer: no model of the link")

// MachineOf describes this machine and dev.
func MachineOf(dev device.Device) Machine {
	info := dev.Info()
	return Machine{
		Device: info.Name, UUID: info.UUID, DriverVersion: info.DriverVersion, Link: info.Link.String(),
		Processor: cpuname.Name(), Processors: runtime.GOMAXPROCS(0),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		SlotBytes: DefaultSlotBytes,
	}
}

// File returns the path of the file that keeps the model of dev, in the
// user's cache directory.
func File(dev device.Device) (string, error) {
	info := dev.Info()
	path, err := cachefile.Path("link", info.Backend, info.Name, info.UUID)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoModel, err)
	}
	return path, nil
}

// Load reads the model of dev from the user's cache directory. It fails
// with [ErrNoModel] when there is none, or when the file is damaged or was
// measured on another machine, driver or version: it is then to be measured
// anew.
func Load(dev device.Device) (*Model, error) {
	path, err := File(dev)
	if err != nil {
		return nil, err
	}
	data, err := cachefile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w of %s: %s does not exist", ErrNoModel, dev.Info().ID, path)
	}
	var m *Model
	if err == nil {
		m, err = parse(data)
	}
	if err == nil && m.Machine != MachineOf(dev) {
		err = fmt.Errorf("stale: it was measured on %+v, this is %+v", m.Machine, MachineOf(dev))
	}
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %s: %w", ErrNoModel, dev.Info().ID, path, err)
	}
	return m, nil
}

// parse reads a model and checks it.
func parse(data []byte) (*Model, error) {
	var m Model
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.Version != Version {
		return nil, fmt.Errorf("version %d, not %d", m.Version, Version)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return &m, nil
}

// Save writes the model where [Load] of the same device finds it. The
// file is complete or not there at all.
func (m *Model) Save(dev device.Device) (path string, err error) {
	if path, err = File(dev); err != nil {
		return "", err
	}
	if err := cachefile.Write(path, m); err != nil {
		return "", err
	}
	return path, nil
}
