package linkreport

import (
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/units"
)

// rates makes the values of a tile of both directions.
func rates(h2d, d2h float64) []page.TileValue {
	return []page.TileValue{{Number: gb(h2d), Unit: "GB/s", What: "to device"}, {Number: gb(d2h), Unit: "GB/s", What: "to host"}}
}

func (r *Report) tiles() (list []page.Tile) {
	add := func(name, note string, values ...page.TileValue) {
		list = append(list, page.Tile{Name: name, Values: values, Note: note})
	}
	ofLimit := func(up, down float64) string {
		a, ok := r.limit("h2d")
		b, _ := r.limit("d2h")
		if !ok {
			return ""
		}
		return fmt.Sprintf("%s and %s of the link’s limit", page.Percent(up/a.Rate), page.Percent(down/b.Rate))
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
			note = fmt.Sprintf("%s and %s times a plain copy", times(up/plainUp), times(down/plainDown))
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
		add("Both directions at once", note, page.TileValue{Number: gb(b.Median), Unit: "GB/s", What: "together"})
	}
	var small []page.TileValue
	for _, kind := range []string{"pinned", "pageable"} {
		if t, ok := timing(r.Bench.Small, "4 KiB "+kind+" h2d"); ok {
			number, unit := units.SplitDuration(t.Median)
			small = append(small, page.TileValue{Number: number, Unit: unit, What: kind})
		}
	}
	if small != nil {
		add("A copy of 4 KiB to the device", "until it is done", small...)
	}
	var pin []page.TileValue
	for _, row := range [][2]string{{"pinned pool", "by Pinion"}, {"driver's allocation", "by the driver"}} {
		if t, ok := timing(r.Bench.Pin, row[0]); ok {
			number, unit := units.SplitDuration(t.Median)
			pin = append(pin, page.TileValue{Number: number, Unit: unit, What: row[1]})
		}
	}
	if pin != nil {
		add("Pinning "+units.Bytes(r.Bench.PinSize), "once, before fast copies", pin...)
	}
	if r.Opened > 0 {
		number, unit := units.SplitDuration(r.Opened)
		add("Opening the device", "once per process; in no copy’s time", page.TileValue{Number: number, Unit: unit})
	}
	if a, ok := r.limit("h2d"); ok {
		b, _ := r.limit("d2h")
		add("Limit of the link", "computed from "+r.Device.Link.String(), rates(a.Rate, b.Rate)...)
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
