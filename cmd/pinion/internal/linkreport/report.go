package linkreport

import (
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/plot"
)

// Report is everything that the page tells.
type Report struct {
	MeasuredAt string // as people should read it
	Commit     string // of the code that measured
	Platform   string // system, architecture, Go version
	CPU        string // name of the processor; "" is unknown
	CPUs       int
	Device     device.Info
	MaxPayload int64         // bytes of a PCIe packet's payload; 0 is unknown
	Opened     time.Duration // what opening the device took, once; 0 is unknown
	Bench      linkbench.Report
}

// bulk finds the rate of a large copy.
func (r *Report) bulk(path, direction string) (linkbench.Bulk, bool) {
	i := slices.IndexFunc(r.Bench.Bulk, func(b linkbench.Bulk) bool {
		return b.Path == path && b.Direction == direction && rateOK(b.Median) && rateOK(b.Least) && rateOK(b.Most)
	})
	if i < 0 {
		return linkbench.Bulk{}, false
	}
	return r.Bench.Bulk[i], true
}

// timing finds a row by its name.
func timing(rows []linkbench.Timing, what string) (linkbench.Timing, bool) {
	i := slices.IndexFunc(rows, func(t linkbench.Timing) bool {
		return t.What == what && t.Least > 0 && t.Median > 0 && t.Most > 0
	})
	if i < 0 {
		return linkbench.Timing{}, false
	}
	return rows[i], true
}

// curve gives the points of a path that the clock could time.
func (r *Report) curve(path, direction string) (points []linkbench.Point) {
	for _, c := range r.Bench.Curves {
		if c.Path != path || c.Direction != direction {
			continue
		}
		for _, p := range c.Points {
			if p.Bytes > 0 && p.Least > 0 && p.Median > 0 && p.Most > 0 {
				points = append(points, p)
			}
		}
	}
	return points
}

// at finds a path's point of that size.
func (r *Report) at(path, direction string, bytes int64) (linkbench.Point, bool) {
	for _, p := range r.curve(path, direction) {
		if p.Bytes == bytes {
			return p, true
		}
	}
	return linkbench.Point{}, false
}

// largest finds a path's point of the largest size.
func (r *Report) largest(path, direction string) (linkbench.Point, bool) {
	points := r.curve(path, direction)
	if len(points) == 0 {
		return linkbench.Point{}, false
	}
	return points[len(points)-1], true
}

// sizes lists the sizes of all curves, growing.
func (r *Report) sizes() (list []int64) {
	for _, c := range r.Bench.Curves {
		for _, p := range r.curve(c.Path, c.Direction) {
			list = append(list, p.Bytes)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// rateOK tells rates that a machine may have, in bytes a second.
func rateOK(v float64) bool { return v >= 1 && v <= 1e15 }

// choices lists those with figures that can be.
func (r *Report) choices() (list []linkbench.Choice) {
	for _, c := range r.Bench.Choice {
		if c.Bytes > 0 && c.Chosen > 0 && c.Best > 0 && c.Ratio > 0 && c.Ratio < 1e6 {
			list = append(list, c)
		}
	}
	return list
}

// way is a direction of copies.
type way struct{ id, title string }

var ways = []way{{"h2d", "Host to device"}, {"d2h", "Device to host"}}

// styles are in the order of legends and tables. Lines are drawn in it too:
// Pinion's is broad and lies under those that it follows.
func (r *Report) styles() []plot.Series {
	plain := "pageable memory, the driver’s own copy"
	if r.Device.Integrated {
		plain = "pageable memory, a plain copy"
	}
	return []plot.Series{
		{ID: "chosen", Name: "Pinion", About: "pageable memory, the path that Pinion chooses", Mark: "diamond"},
		{ID: "pinned", Name: "pinned", About: "page-locked memory, straight to the copy engine", Mark: "circle"},
		{ID: "staged", Name: "staged", About: "pageable memory, always through Pinion’s pinned rings", Mark: "square"},
		{ID: "mapped", Name: "mapped", About: "page-locked memory, moved by a kernel in blocks of 16 KiB", Mark: "triangle"},
		{ID: "pageable", Name: "pageable", About: plain, Mark: "cross"},
	}
}
