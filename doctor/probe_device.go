package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

// openDevice opens the device of a request, and says what was passed over.
func openDevice(name string) (dev device.Device, passed, err error) {
	if name == "auto" {
		return device.Best()
	}
	dev, err = device.Open(name)
	return dev, nil, err
}

func probeDevice(_ context.Context, req request) (_ any, err error) {
	start := time.Now()
	dev, passed, err := openDevice(req.Device)
	if err != nil {
		return deviceFacts{Error: oneLine(err.Error()), NoName: errors.Is(err, device.ErrArgument)}, nil
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	facts := deviceFacts{OpenSeconds: time.Since(start).Seconds(), Info: dev.Info(), Capabilities: device.Capabilities(dev)}
	if passed != nil {
		facts.Passed, facts.NoDriver = oneLine(passed.Error()), errors.Is(passed, dl.ErrNotFound)
	}
	if facts.Memory, err = dev.Memory(); err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	facts.Peers = peers(dev)
	m, err := linkmodel.Load(dev)
	if err != nil {
		facts.Model.Reason = oneLine(err.Error())
	} else {
		facts.Model.Value = m.MeasuredAt.UTC().Format(time.DateOnly)
	}
	return facts, nil
}

// peers opens the other devices of dev's backend, a few.
func peers(dev device.Device) (list []peerFact) {
	const most = 15
	me := dev.Info()
	copier, ok := device.As[device.PeerCopier](dev)
	if !ok {
		return nil
	}
	for _, b := range device.Backends() {
		if b.Name != me.Backend {
			continue
		}
		names, _ := b.List()
		for _, name := range names[:min(len(names), most+1)] {
			if name == me.ID {
				continue
			}
			if other, err := device.Open(name); err == nil {
				if me.Backend != "host" {
					list = append(list, peerFact{name, copier.PeerAccess(other)})
				}
				other.Close()
			}
		}
	}
	return list
}

// probeFiles asks whether files at the path move straight to the device.
func probeFiles(_ context.Context, req request) (_ any, err error) {
	dev, _, err := openDevice(req.Device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	mover, ok := device.As[device.FileMover](dev)
	if !ok {
		return nil, errors.New("this device moves no files")
	}
	file, err := anyFile(req.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	no := mover.MovesStraight(file)
	return filesFacts{know(no == nil, no)}, nil
}

// anyFile opens path, or a file in that folder, or the folder itself: it is only
// asked where it lies.
func anyFile(path string) (*os.File, error) {
	const some = 100 // entries, of perhaps millions
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	entries, _ := f.ReadDir(some)
	for _, e := range entries {
		if e.Type().IsRegular() {
			f.Close()
			return os.Open(filepath.Join(path, e.Name()))
		}
	}
	return f, nil
}

func probeNVML(_ context.Context, req request) (any, error) {
	if err := nvml.Open(); err != nil {
		return nil, fmt.Errorf("no NVML: %w", err)
	}
	var facts nvmlFacts
	facts.Driver = know(nvml.DriverVersion())
	on, err := nvml.Confidential()
	if errors.Is(err, nvml.ErrNotSupported) { // a driver that knows nothing of it has it off
		err = nil
	}
	facts.Confidential = know(on, err)
	gpu, err := findGPU(req.PCIBusID)
	if err != nil {
		return nil, err
	}
	facts.Persistent = know(gpu.Persistent())
	facts.MIG = know(gpu.MIG())
	facts.Replays = know(gpu.Replays())
	facts.Processes = know(gpu.Processes())
	busy, _, err := gpu.Utilisation()
	facts.Utilisation = know(busy, err)
	return facts, nil
}

// findGPU finds the GPU of the device, or the first where the device is unknown.
func findGPU(busID string) (nvml.Device, error) {
	if busID != "" {
		return nvml.ByBusID(busID)
	}
	list, err := nvml.Devices()
	if err != nil {
		return nvml.Device{}, err
	}
	if len(list) == 0 {
		return nvml.Device{}, errors.New("NVML knows no GPU")
	}
	return list[0], nil
}

func probeLibraries(context.Context, request) (any, error) {
	list := []libraryFact{}
	for _, o := range dl.Registered() {
		row := libraryFact{Name: o.Name, Use: o.Use}
		if file, err := o.Open(); err != nil {
			row.Reason = oneLine(err.Error())
		} else {
			row.File = dl.Path(file)
		}
		list = append(list, row)
	}
	return list, nil
}
