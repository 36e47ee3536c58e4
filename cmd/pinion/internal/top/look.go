package top

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/monitor/local"
)

// Look is what was seen at one time. As JSON it is a document of pinion top.
type Look struct {
	provenance.Record
	At time.Time `json:"-"`

	// Seconds have passed since the look before; 0: there was none, so that rates are
	// not known.
	Seconds      float64   `json:"seconds"`
	Machine      Machine   `json:"machine"`
	GPUs         []GPU     `json:"gpus"`
	Processes    []Process `json:"processes"`
	NotAvailable []Missing `json:"not_available"`
}

// Missing is what could not be seen.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Machine is the host. What is not known is zero or nil.
type Machine struct {
	CPUBusyFraction      *float64  `json:"cpu_busy_fraction,omitempty"`
	LoadAverages         []float64 `json:"load_averages,omitempty"`          // over 1, 5 and 15 minutes
	MemoryLimitBytes     int64     `json:"memory_limit_bytes,omitempty"`     // that a process could ever use
	MemoryAvailableBytes int64     `json:"memory_available_bytes,omitempty"` // of it, that one still could
}

// Process is a process that offers its snapshot.
type Process struct {
	PID     int  `json:"pid"`
	Foreign bool `json:"foreign,omitempty"` // in another PID namespace: PID is not its number here

	Command       string   `json:"command"`
	CPURatio      *float64 `json:"cpu_ratio,omitempty"` // of the time of one processor; may be above 1
	ResidentBytes int64    `json:"resident_bytes,omitempty"`

	Snapshot       *monitor.Snapshot `json:"snapshot"` // nil: it did not answer
	SnapshotReason string            `json:"snapshot_reason,omitempty"`
	Links          []Link            `json:"links"`
	Loaders        []Loader          `json:"loaders"`

	delta *monitor.Snapshot // since the look before; nil: not known
	path  string
}

// Link is how much is copied in a direction by a path.
type Link struct {
	Device    string  `json:"device"`
	Direction string  `json:"direction"`
	Path      string  `json:"path"`
	GBPerS    float64 `json:"gb_per_s"`
}

// Loader is what the loaders of a device do. Its figures are about Seconds: where
// samples take long, more than pass between two looks.
type Loader struct {
	Device             string  `json:"device"`
	Seconds            float64 `json:"seconds"`
	SamplesPerS        float64 `json:"samples_per_s"`
	H2DGBPerS          float64 `json:"h2d_gb_per_s"`
	DeviceWaitFraction float64 `json:"device_wait_fraction"`
	Limit              string  `json:"limit"` // as monitor.Loader.Limit names it; "": nothing was done
	Stages             []Stage `json:"stages"`
}

// Stage is one stage of loaders.
type Stage struct {
	Stage        string  `json:"stage"`
	Where        string  `json:"where"`
	Seconds      float64 `json:"seconds"`
	BusyFraction float64 `json:"busy_fraction"` // of the time of all workers, or of all devices
}

// Looker takes looks. Use NewLooker.
type Looker struct {
	record   provenance.Record
	gpus     *gpuReader
	last     time.Time
	cpu      cpuTimes
	before   map[string]memory // by path of the socket
	patience time.Duration     // for how long a process may not answer: one that is stopped never does
}

// memory is what is kept of a process for the next look.
type memory struct {
	snapshot *monitor.Snapshot
	cpu      time.Duration
	recent   *monitor.RecentLoaders
}

// NewLooker makes a Looker.
func NewLooker() *Looker {
	return &Looker{record: provenance.Now(), gpus: newGPUReader(), before: map[string]memory{}, patience: time.Second}
}

// Look looks at everything once. It fails with ctx's error, and with none of what it
// looks at.
func (l *Looker) Look(ctx context.Context) (Look, error) {
	now := time.Now()
	look := Look{Record: l.record, At: now, Machine: Machine{MemoryLimitBytes: sysmem.Limit(), MemoryAvailableBytes: sysmem.Available()}}
	look.MeasuredAt = now.UTC().Format(time.RFC3339)
	if !l.last.IsZero() {
		look.Seconds = now.Sub(l.last).Seconds()
	}
	l.last = now
	cpu := readCPU()
	look.Machine.CPUBusyFraction = cpu.busySince(l.cpu)
	look.Machine.LoadAverages = loadAverages()
	l.cpu = cpu

	var gpus sync.WaitGroup
	var missing []Missing
	gpus.Go(func() { look.GPUs, missing = l.gpus.read(ctx) })
	list, err := local.Processes()
	if err != nil {
		look.NotAvailable = append(look.NotAvailable, Missing{"processes", err.Error()})
	}
	look.Processes = l.ask(ctx, list, look.Seconds)
	gpus.Wait()
	look.NotAvailable = append(look.NotAvailable, missing...)
	if look.NotAvailable == nil {
		look.NotAvailable = []Missing{}
	}
	nameGPUProcesses(look.GPUs)
	return look, ctx.Err()
}

// ask asks all processes at once. Those that end meanwhile are left out.
func (l *Looker) ask(ctx context.Context, list []local.Process, seconds float64) []Process {
	found := make([]Process, len(list))
	gone := make([]bool, len(list))
	now := make([]memory, len(list))
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	var all sync.WaitGroup
	for i, p := range list {
		all.Go(func() {
			s, err := p.Snapshot(ctx)
			if gone[i] = errors.Is(err, local.ErrGone); !gone[i] {
				found[i], now[i] = l.describe(p, s, err, seconds)
			}
		})
	}
	all.Wait()
	l.before = map[string]memory{}
	kept := []Process{}
	for i, p := range found {
		if !gone[i] {
			l.before[p.path] = now[i]
			kept = append(kept, p)
		}
	}
	return kept
}

// describe makes a Process of a process's answer. It changes nothing of l.
func (l *Looker) describe(p local.Process, s monitor.Snapshot, err error, seconds float64) (Process, memory) {
	out := Process{PID: p.PID, Foreign: p.Foreign, Command: s.Command, Links: []Link{}, Loaders: []Loader{}, path: p.Path}
	before := l.before[p.Path]
	var now memory
	if !p.Foreign {
		if about, ok := readProcess(p.PID); ok {
			out.ResidentBytes, now.cpu = about.resident, about.cpu
			if about.command != "" {
				out.Command = about.command
			}
			if before.cpu > 0 && seconds > 0 {
				ratio := max(0, (now.cpu-before.cpu).Seconds()/seconds)
				out.CPURatio = &ratio
			}
		}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		out.SnapshotReason = fmt.Sprintf("it does not answer for %v: it may be stopped", l.patience)
	case err != nil:
		out.SnapshotReason = strings.TrimPrefix(err.Error(), fmt.Sprintf("monitor: process %d: ", p.PID))
	default:
		out.Snapshot, now.snapshot, now.recent = &s, &s, before.recent
		if now.recent == nil {
			now.recent = new(monitor.RecentLoaders)
		}
		recent := now.recent.Add(s)
		if before.snapshot != nil && s.MeasuredAt.After(before.snapshot.MeasuredAt) {
			d := s.Since(*before.snapshot)
			out.delta = &d
			out.Links, out.Loaders = links(d), loaders(recent)
		}
	}
	return out, now
}

// links are the rates of d, which is about some time; paths that carried nothing are
// left out.
func links(d monitor.Snapshot) []Link {
	list := []Link{}
	for _, t := range d.Transfer {
		for _, w := range t.Traffic {
			if w.Bytes > 0 {
				list = append(list, Link{t.Device, w.Direction, w.Path, float64(w.Bytes) / d.Seconds / 1e9})
			}
		}
	}
	return list
}

func loaders(recent []monitor.RecentLoader) []Loader {
	list := []Loader{}
	for _, x := range recent {
		if x.Loaders == 0 {
			continue
		}
		if x.Batches == 0 && x.Ready == 0 && x.Reading > 0 {
			x.DeviceWaitSeconds = x.Seconds // a wait is counted when it ends
		}
		l := Loader{
			Device: x.Device, Seconds: x.Seconds, SamplesPerS: float64(x.Samples) / x.Seconds, H2DGBPerS: float64(x.H2DBytes) / x.Seconds / 1e9,
			DeviceWaitFraction: min(1, finite(x.DeviceWaitSeconds/x.Seconds)), Limit: x.Limit(x.Seconds), Stages: []Stage{},
		}
		for _, g := range x.Stages {
			n := x.Workers
			if g.Where == "device" {
				n = x.Devices
			}
			// A stage's time is counted when it ends, which may be more than the
			// time that it is about.
			l.Stages = append(l.Stages, Stage{g.Stage, g.Where, finite(g.Seconds), min(1, finite(g.Seconds/(x.Seconds*float64(max(n, 1)))))})
		}
		list = append(list, l)
	}
	return list
}

// finite is v, or 0 for what is no number: a process may tell anything.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// deviceBytes is the device memory that a process has. Where it has pools, those of
// loaders may be of them.
func (p *Process) deviceBytes() (n int64) {
	if p.Snapshot == nil {
		return 0
	}
	for _, v := range p.Snapshot.VRAM {
		n += v.ReservedBytes
	}
	for _, f := range p.Snapshot.Foreign {
		n += f.ReservedBytes
	}
	if n == 0 {
		for _, l := range p.Snapshot.Loader {
			n += l.DeviceBytes
		}
	}
	return n
}

// moved is how much it copies, in GB/s.
func (p *Process) moved() (rate float64) {
	for _, l := range p.Links {
		rate += l.GBPerS
	}
	for _, l := range p.Loaders {
		rate += l.H2DGBPerS
	}
	return rate
}

func (p *Process) cpu() float64 {
	if p.CPURatio == nil {
		return 0
	}
	return *p.CPURatio
}

// devices are the devices that a process has anything open on, or has memory of.
func (p *Process) devices() (ids []string) {
	s := p.Snapshot
	add := func(id string, open bool) {
		if open && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, v := range s.VRAM {
		add(v.Device, v.Pools > 0)
	}
	for _, f := range s.Foreign {
		add(f.Device, true)
	}
	for _, x := range s.Pinned {
		add(x.Device, x.Pools > 0)
	}
	for _, t := range s.Transfer {
		add(t.Device, t.Engines > 0)
	}
	for _, t := range s.Tier {
		add(t.Device, t.Stores > 0)
	}
	for _, l := range s.Loader {
		add(l.Device, l.Loaders > 0)
	}
	slices.Sort(ids)
	return ids
}
