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
		return deviceFacts{Error: oneLine(err.Error())}, nil
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
	facts.Straight = straight(dev, req.Path)
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

// straight asks whether files at path move straight to the device.
func straight(dev device.Device, path string) (k known[bool]) {
	mover, ok := device.As[device.FileMover](dev)
	if !ok {
		k.Reason = "this device moves no files"
		return k
	}
	file, err := anyFile(path)
	if err != nil {
		k.Reason = oneLine(err.Error())
		return k
	}
	defer file.Close()
	if err := mover.MovesStraight(file); err != nil {
		k.Reason = oneLine(err.Error())
		return k
	}
	k.Value = true
	return k
}

// anyFile opens path, or a file in that folder, or the folder itself: it is only
// asked where it lies.
func anyFile(path string) (*os.File, error) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.Type().IsRegular() {
			return os.Open(filepath.Join(path, e.Name()))
		}
	}
	return os.Open(path)
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
