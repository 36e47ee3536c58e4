package linkreport

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
)

// tile is a headline number, or two of a kind.
type tile struct {
	Name   string
	Values []tileValue
	Note   string
}

type tileValue struct{ Number, Unit, What string }

// rates makes the values of a tile of both directions.
func rates(h2d, d2h float64) []tileValue {
	return []tileValue{{gb(h2d), "GB/s", "to device"}, {gb(d2h), "GB/s", "to host"}}
}

func (r *Report) tiles() (list []tile) {
	add := func(name, note string, values ...tileValue) {
		list = append(list, tile{name, values, note})
	}
	ofLimit := func(up, down float64) string {
		a, ok := r.limit("h2d")
		b, _ := r.limit("d2h")
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s and %s of the link’s limit", percent(up/a.rate), percent(down/b.rate))
	}
	both := func(path string) (up, down linkbench.Bulk, ok bool) {
		up, ok = r.bulk(path, "h2d")
		down, also := r.bulk(path, "d2h")
		return up, down, ok && also
	}
	if up, down, ok := both("pinned"); ok {
		add("Pinned memory", ofLimit(up.Median, down.Median), rates(up.Median, down.Median)...)
	}
	up, down, pinion := r.pinion()
	plainUp, plainDown, plain := r.rates("pageable", "pageable")
	if pinion {
		note := ""
		if plain && up > 1.1*plainUp && !r.Device.Integrated {
			note = fmt.Sprintf("%s and %s times the plain copy", times(up/plainUp), times(down/plainDown))
		}
		add("Pageable memory, by Pinion", note, rates(up, down)...)
	}
	if plain {
		name, note := "Pageable memory, by the driver", "what a plain copy gets"
		if r.Device.Integrated {
			name, note = "Pageable memory, plain copy", "the device shares the host’s memory"
		}
		add(name, note, rates(plainUp, plainDown)...)
	}
	if b, ok := r.bulk("pinned", "both"); ok {
		note := ""
		if up, ok := r.bulk("pinned", "h2d"); ok {
			note = fmt.Sprintf("%s times one direction", times(b.Median/up.Median))
		}
		add("Both directions at once", note, tileValue{gb(b.Median), "GB/s", "together"})
	}
	var small []tileValue
	for _, kind := range []string{"pinned", "pageable"} {
		if t, ok := timing(r.Bench.Small, "4 KiB "+kind+" h2d"); ok {
			number, unit := duration(t.Median)
			small = append(small, tileValue{number, unit, kind})
		}
	}
	if small != nil {
		add("A copy of 4 KiB to the device", "with the wait for it", small...)
	}
	var pin []tileValue
	for _, row := range [][2]string{{"pinned pool", "by Pinion"}, {"driver's allocation", "by the driver"}} {
		if t, ok := timing(r.Bench.Pin, row[0]); ok {
			number, unit := duration(t.Median)
			pin = append(pin, tileValue{number, unit, row[1]})
		}
	}
	if pin != nil {
		add("Pinning "+bytesText(r.Bench.Size), "once, before it can be copied fast", pin...)
	}
	if r.Opened > 0 {
		number, unit := duration(r.Opened)
		add("Opening the device", "once in a process; no part of any copy", tileValue{number, unit, ""})
	}
	if a, ok := r.limit("h2d"); ok {
		b, _ := r.limit("d2h")
		add("Limit of the link", "computed from "+r.Device.Link.String(), rates(a.rate, b.rate)...)
	}
	return list
}

// pinion is the rate of pageable memory through Pinion, in bytes a second: by
// the path that it chose, or where no curves were measured the staged one.
func (r *Report) pinion() (up, down float64, ok bool) { return r.rates("chosen", "staged") }

// rates are those of the largest copy of a curve, or where there is none of a
// bulk path. Figures that are compared come from the same measurement.
func (r *Report) rates(curve, bulk string) (up, down float64, ok bool) {
	rate := func(direction string) float64 {
		if p, ok := r.largest(curve, direction); ok {
			return perSecond(p.Bytes, p.Median)
		}
		b, _ := r.bulk(bulk, direction)
		return b.Median
	}
	up, down = rate("h2d"), rate("d2h")
	return up, down, up > 0 && down > 0
}

func perSecond(bytes int64, d time.Duration) float64 { return float64(bytes) / d.Seconds() }
