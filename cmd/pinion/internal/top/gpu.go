package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/nvml"
	"github.com/pinion-gpu/pinion/internal/process"
)

// GPU is a GPU as NVIDIA's management library sees it, with all that use it. What it
// does not tell is nil, or zero where that cannot be.
type GPU struct {
	Index            int          `json:"index"` // in the library's order, that of the PCI bus
	Name             string       `json:"name"`
	UUID             string       `json:"uuid,omitempty"`
	MemoryTotalBytes int64        `json:"memory_total_bytes,omitempty"`
	MemoryUsedBytes  int64        `json:"memory_used_bytes,omitempty"`
	BusyFraction     *float64     `json:"busy_fraction,omitempty"` // of the time, in which a kernel ran
	H2DGBPerS        *float64     `json:"h2d_gb_per_s,omitempty"`  // over the link, with the packets' headers
	D2HGBPerS        *float64     `json:"d2h_gb_per_s,omitempty"`
	Link             *cli.LinkRow `json:"link,omitempty"`
	TemperatureC     int          `json:"temperature_celsius,omitempty"`
	PowerWatts       float64      `json:"power_watts,omitempty"`
	PowerLimitWatts  float64      `json:"power_limit_watts,omitempty"`
	SlowReason       string       `json:"slow_reason,omitempty"` // what holds the clocks back
	Reason           string       `json:"lost_reason,omitempty"` // why nothing else is known
	Processes        []GPUProcess `json:"processes"`
}

// GPUProcess is a process that uses a GPU.
type GPUProcess struct {
	PID          int      `json:"pid"` // as the host numbers processes, also in a container
	Command      string   `json:"command,omitempty"`
	UsedBytes    *int64   `json:"used_bytes,omitempty"`
	BusyFraction *float64 `json:"busy_fraction,omitempty"`
}

// gpuReader asks the library in a goroutine that nobody waits long for: a wedged
// driver may hold a call for ever.
type gpuReader struct {
	ask     func() ([]GPU, []Missing)
	pending chan reading // of the question under way; nil: none is
	since   time.Time    // when it was asked
	last    reading
}

type reading struct {
	gpus    []GPU
	missing []Missing
}

func newGPUReader() *gpuReader {
	seen := map[int]uint64{} // newest samples of use by process
	return &gpuReader{ask: func() ([]GPU, []Missing) { return askGPUs(seen) }}
}

const (
	gpuPatience = time.Second     // that a look waits for the library
	gpuWedged   = 5 * time.Second // after which the driver is said not to answer
)

// read returns what the library tells, or told last.
func (r *gpuReader) read(ctx context.Context) ([]GPU, []Missing) {
	if r.pending == nil {
		answer := make(chan reading, 1)
		r.pending, r.since = answer, time.Now()
		go func() {
			gpus, missing := r.ask()
			answer <- reading{gpus, missing}
		}()
	}
	timer := time.NewTimer(gpuPatience)
	defer timer.Stop()
	select {
	case r.last = <-r.pending:
		r.pending = nil
	case <-timer.C:
	case <-ctx.Done():
	}
	gpus, missing := append([]GPU{}, r.last.gpus...), r.last.missing
	if r.pending != nil && time.Since(r.since) > gpuWedged {
		missing = append(missing[:len(missing):len(missing)], Missing{"gpus",
			fmt.Sprintf("the driver does not answer since %s: what is shown of GPUs is older", r.since.Format(time.TimeOnly))})
	}
	return gpus, missing
}

func askGPUs(seen map[int]uint64) ([]GPU, []Missing) {
	devices, err := nvml.Devices()
	var missing []Missing
	if err != nil {
		reason := err.Error()
		if errors.Is(err, dl.ErrNotFound) {
			reason = "NVIDIA's management library is not installed: " + reason
		}
		missing = append(missing, Missing{"gpus", reason})
	}
	gpus := []GPU{}
	for i, d := range devices {
		gpus = append(gpus, askGPU(i, d, seen))
	}
	return gpus, missing
}

func askGPU(index int, d nvml.Device, seen map[int]uint64) GPU {
	g := GPU{Index: index, Processes: []GPUProcess{}}
	var err error
	if g.Name, err = d.Name(); err != nil {
		g.Name = "GPU"
	}
	m, err := d.Memory()
	if errors.Is(err, nvml.ErrLost) {
		g.Reason = err.Error()
		return g
	}
	g.MemoryTotalBytes, g.MemoryUsedBytes = m.TotalBytes, m.UsedBytes
	g.UUID, _ = d.UUID()
	if busy, _, err := d.Utilisation(); err == nil {
		g.BusyFraction = &busy
	}
	if up, down, err := d.Throughput(); err == nil {
		up, down = up/1e9, down/1e9
		g.H2DGBPerS, g.D2HGBPerS = &up, &down
	}
	if l, err := d.Link(); err == nil {
		g.Link = cli.NewLinkRow(device.Link{Kind: "PCIe", Gen: l.Gen, Width: l.Width, MaxGen: l.MaxGen, MaxWidth: l.MaxWidth})
	}
	g.TemperatureC, _ = d.Temperature()
	g.PowerWatts, g.PowerLimitWatts, _ = d.Power()
	if why, err := d.Slowdown(); err == nil {
		if why &^= nvml.Idle | nvml.Settings; why != 0 {
			g.SlowReason = why.String()
		}
	}
	uses := map[int]float64{}
	if list, newest, err := d.ProcessUse(seen[index]); err == nil {
		seen[index] = newest
		for _, u := range list {
			uses[u.PID] = u.GPU
		}
	}
	list, _ := d.Processes()
	for _, p := range list {
		out := GPUProcess{PID: p.PID}
		if p.UsedBytes >= 0 {
			out.UsedBytes = &p.UsedBytes
		}
		if use, known := uses[p.PID]; known {
			out.BusyFraction = &use
		}
		g.Processes = append(g.Processes, out)
	}
	return g
}

// hostNamespace is the number that Linux gives the first PID namespace.
const hostNamespace = 0xEFFFFFFC

// nameGPUProcesses adds the commands of processes, where their numbers are those of
// this process's own namespace.
func nameGPUProcesses(gpus []GPU) {
	if id, err := process.Self(); err != nil || id.Namespace != hostNamespace {
		return
	}
	for _, g := range gpus {
		for i := range g.Processes {
			g.Processes[i].Command = commandOf(g.Processes[i].PID)
		}
	}
}
