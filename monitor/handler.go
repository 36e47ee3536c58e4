package monitor

import (
	"net/http"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/monitor/internal/page"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// Handler serves the dashboard of this process: one page that shows the memory, what
// moves and who waits, live, the API behind it under api/, and [MetricsHandler] at
// metrics. It may be mounted anywhere:
//
//	http.Handle("/pinion/", http.StripPrefix("/pinion", monitor.Handler()))
//
// It only reads. It shows sizes, times, counts, the names of devices and allocations,
// and call stacks where pools record them; who may see that is for the server to
// decide. Through a loopback address it answers only to the names of this machine
// itself, so that no page of another site can read it.
//
// Samples are taken once a second while somebody watches, for all who watch. The
// history of a day is kept in bounded memory until the process ends. A server that
// shuts down ends the streams of its clients.
func Handler() http.Handler {
	return page.New(page.Source{Sample: new(sampler).sample, Metrics: MetricsHandler(), Pools: openPools, Others: others, Devices: openDevices})
}

// sampler takes samples for the page, one at a time.
type sampler struct{ recent RecentLoaders }

// sample takes a snapshot, and what was done since the one before.
func (p *sampler) sample(before *page.Sample) *page.Sample {
	s := Take()
	if before == nil {
		p.recent = RecentLoaders{}
	}
	x := &page.Sample{At: s.MeasuredAt, Snapshot: s, Limits: []page.Limit{}}
	d, rates := s, false
	if before != nil {
		d = s.Since(before.Snapshot.(Snapshot))
		rates = d.Seconds > 0
	}
	recent := p.recent.Add(s)
	x.Values = d.values(rates, recent)
	for _, l := range recent {
		if limit := l.Limit(l.Seconds); limit != "" {
			x.Limits = append(x.Limits, page.Limit{Device: l.Device, Limit: limit})
		}
	}
	return x
}

// values are the numbers that charts show: amounts, and rates if s is what was done
// since an earlier snapshot. Those of loaders are of what they did lately.
func (s Snapshot) values(rates bool, recent []RecentLoader) []page.Value {
	list := []page.Value{}
	amount := func(chart, device, name string, v int64) {
		list = append(list, page.Value{Column: page.Column{Chart: chart, Device: device, Name: name}, Value: float64(v)})
	}
	over := s.Seconds
	rate := func(chart, device, name string, v float64) {
		if rates {
			list = append(list, page.Value{Column: page.Column{Chart: chart, Device: device, Name: name, Rate: true}, Value: v / over})
		}
	}
	for _, v := range s.VRAM {
		if v.Pools == 0 {
			continue
		}
		for _, p := range v.Purposes {
			amount("device_bytes", v.Device, p.Purpose, p.AllocatedBytes)
		}
		amount("device_bytes", v.Device, "pending", v.ActiveBytes-v.AllocatedBytes)
		amount("device_bytes", v.Device, "free", v.FreeBytes)
	}
	for _, f := range s.Foreign {
		amount("device_bytes", f.Device, f.Source, f.AllocatedBytes)
		amount("device_bytes", f.Device, f.Source+" cache", f.ReservedBytes-f.AllocatedBytes)
	}
	for _, p := range s.Pinned {
		if p.Pools == 0 {
			continue
		}
		amount("pinned_bytes", p.Device, "in use", p.ActiveBytes)
		amount("pinned_bytes", p.Device, "pending", p.PendingBytes)
		amount("pinned_bytes", p.Device, "free", p.FreeBytes)
		amount("pinned_bytes", p.Device, "registered", p.RegisteredBytes)
	}
	for _, t := range s.Transfer {
		for _, w := range t.Traffic {
			rate("link_bytes_per_s", t.Device, w.Direction+" "+w.Path, float64(w.Bytes))
		}
	}
	for _, l := range s.Loader {
		if l.Loaders > 0 {
			amount("device_bytes", l.Device, "loader", l.DeviceBytes)
		}
	}
	for _, l := range recent {
		over = l.Seconds
		rate("link_bytes_per_s", l.Device, "h2d loader", float64(l.H2DBytes))
		rate("samples_per_s", l.Device, "samples", float64(l.Samples))
		rate("stage_busy", l.Device, "wait", l.DeviceWaitSeconds)
		for _, g := range l.Stages {
			rate("stage_busy", l.Device, g.Where+" "+g.Stage, g.Seconds)
		}
	}
	over = s.Seconds
	for _, t := range s.Tier {
		if t.Stores == 0 {
			continue
		}
		for _, l := range t.Levels {
			amount("tier_bytes", t.Device, l.Tier, l.UsedBytes)
		}
		rate("tier_bytes_per_s", t.Device, "to the device", float64(t.FillBytes))
		rate("tier_bytes_per_s", t.Device, "to the host", float64(t.WriteBackBytes))
		rate("tier_bytes_per_s", t.Device, "to files", float64(t.SavedBytes))
		rate("tier_bytes_per_s", t.Device, "from files", float64(t.FetchedBytes))
		rate("stage_busy", t.Device, "tier wait", t.WaitSeconds)
	}
	return list
}

func openPools() (list []*vram.Pool) {
	live.View(func(all []*vram.Pool) { list = slices.Clone(all) })
	return list
}

// openDevices are the devices that something is open on, some of them twice.
func openDevices() (list []device.Device) {
	live.View(func(all []*vram.Pool) {
		for _, x := range all {
			list = append(list, x.Device())
		}
	})
	live.View(func(all []*pinned.Pool) {
		for _, x := range all {
			list = append(list, x.Device())
		}
	})
	live.View(func(all []*transfer.Engine) {
		for _, x := range all {
			list = append(list, x.Device())
		}
	})
	live.View(func(all []*tier.Store) {
		for _, x := range all {
			list = append(list, x.Device())
		}
	})
	live.View(func(all []*loader.Loader) {
		for _, x := range all {
			list = append(list, x.Devices()...)
		}
	})
	return list
}
