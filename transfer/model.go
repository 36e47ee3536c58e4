package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/cachefile"
	"github.com/pinion-gpu/pinion/internal/cpuname"
)

// modelVersion changes when the paths or their meaning do: older files are
// then measured anew.
const modelVersion = 2

// Model is what the paths of one machine and device cost, as [Calibrate]
// measured them. An [Engine] chooses by it.
type Model struct {
	Version    int       `json:"version"`
	Machine    Machine   `json:"machine"`
	MeasuredAt time.Time `json:"measured_at"`

	// Paths are the ways of copying pageable memory, for each direction.
	Paths []PathModel `json:"paths"`

	// Pinned are the straight copies of pinned memory, for each direction.
	Pinned []PathModel `json:"pinned"`

	// Batches are the ways of copying many blocks of pinned memory.
	Batches []BatchModel `json:"batches"`
}

// PathModel is the cost of one way of copying in one direction.
type PathModel struct {
	Path    string `json:"path"` // "plain": the backend's own copy; "staged"; "pinned"
	ToHost  bool   `json:"to_host"`
	Copiers int    `json:"copiers,omitempty"` // of a staged copy

	// PastCaches: the processor writes with non-temporal stores.
	PastCaches bool `json:"past_caches,omitempty"`

	Curve Curve `json:"curve"`
}

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
var ErrNoModel = errors.New("no model of the link")

// MachineOf describes this machine and dev.
func MachineOf(dev device.Device) Machine {
	info := dev.Info()
	return Machine{
		Device: info.Name, UUID: info.UUID, DriverVersion: info.DriverVersion, Link: info.Link.String(),
		Processor: cpuname.Name(), Processors: runtime.GOMAXPROCS(0),
		Platform:  runtime.GOOS + "/" + runtime.GOARCH,
		SlotBytes: defaultSlotBytes,
	}
}

// ModelFile returns the path of the file that keeps the model of dev, in the
// user's cache directory.
func ModelFile(dev device.Device) (string, error) {
	info := dev.Info()
	path, err := cachefile.Path("link", info.Backend, info.Name, info.UUID)
	if err != nil {
		return "", fmt.Errorf("transfer: %w: %w", ErrNoModel, err)
	}
	return path, nil
}

// LoadModel reads the model of dev from the user's cache directory. It fails
// with [ErrNoModel] when there is none, or when the file is damaged or was
// measured on another machine, driver or version: it is then to be measured
// anew.
func LoadModel(dev device.Device) (*Model, error) {
	path, err := ModelFile(dev)
	if err != nil {
		return nil, err
	}
	data, err := cachefile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("transfer: %w of %s: %s does not exist", ErrNoModel, dev.Info().ID, path)
	}
	var m *Model
	if err == nil {
		m, err = parseModel(data)
	}
	if err == nil && m.Machine != MachineOf(dev) {
		err = fmt.Errorf("stale: it was measured on %+v, this is %+v", m.Machine, MachineOf(dev))
	}
	if err != nil {
		return nil, fmt.Errorf("transfer: %w of %s: %s: %w", ErrNoModel, dev.Info().ID, path, err)
	}
	return m, nil
}

// parseModel reads a model and checks it.
func parseModel(data []byte) (*Model, error) {
	var m Model
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.Version != modelVersion {
		return nil, fmt.Errorf("version %d, not %d", m.Version, modelVersion)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return &m, nil
}

// check looks for what no measurement gives and an engine could stumble over.
func (m *Model) check() error {
	for _, paths := range [][]PathModel{m.Paths, m.Pinned} {
		for _, p := range paths {
			if p.Copiers < 0 || p.Copiers > maxCopiers {
				return fmt.Errorf("path %s with %d copiers", p.Path, p.Copiers)
			}
			if err := p.Curve.check(); err != nil {
				return fmt.Errorf("path %s: %w", p.Path, err)
			}
		}
	}
	for _, b := range m.Batches {
		if !(b.CallSeconds >= 0) || math.IsInf(b.CallSeconds, 0) {
			return fmt.Errorf("batch path %s: a call in %v s", b.Path, b.CallSeconds)
		}
		if err := b.Block.check(); err != nil {
			return fmt.Errorf("batch path %s: %w", b.Path, err)
		}
	}
	return nil
}

// Save writes the model where [LoadModel] of the same device finds it. The
// file is complete or not there at all.
func (m *Model) Save(dev device.Device) (path string, err error) {
	if path, err = ModelFile(dev); err != nil {
		return "", err
	}
	if err := cachefile.Write(path, m); err != nil {
		return "", err
	}
	return path, nil
}
