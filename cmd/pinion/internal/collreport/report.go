package collreport

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Report is everything that the page tells.
type Report struct {
	MeasuredAt string // as people should read it
	Commit     string // of the code that measured
	Platform   string // system, architecture, Go version
	CPU        string // name of the processor; "" is unknown
	CPUs       int    // of the host of rank 0
	Device     device.Info
	Bench      *collbench.Report
}

//go:embed page.html.tmpl
var pageText string

//go:embed style.css
var styleText string

var pageTemplate = page.Parse(pageText)

// view is the data of the page.
type view struct {
	page.Head
	Name, Finding, Warmup, Small string
	Ranks, Repeats               int
	Facts, Origin, Notices       []string
	Tiles                        []page.Tile
	Legend                       []page.LegendRow
	Plots                        []page.Graph
	Advice                       []advice
	Meanings                     []meaning
	Tables                       []page.Table
}

// meaning is what is counted of an operation.
type meaning struct{ Operation, Size, Formula, Factor string }

// series are the operations as they are drawn.
var series = []plot.Series{
	{ID: "allreduce", Name: collbench.AllReduce, About: "every rank gets what all have, combined", Mark: "diamond"},
	{ID: "reducescatter", Name: collbench.ReduceScatter, About: "every rank gets its share of that", Mark: "circle"},
	{ID: "allgather", Name: collbench.AllGather, About: "every rank gets the shares of all", Mark: "square"},
	{ID: "broadcast", Name: collbench.Broadcast, About: "every rank gets what the first has"},
	{ID: "sendreceive", Name: collbench.SendReceive, About: "every rank sends to the next, in a ring", Mark: "triangle"},
	{ID: "alltoall", Name: collbench.AllToAll, About: "every rank gets a share from each", Mark: "cross"},
}

var meanings = map[string]meaning{
	collbench.AllReduce:     {Size: "each rank has", Formula: "2(n−1)/n"},
	collbench.ReduceScatter: {Size: "each rank sends", Formula: "(n−1)/n"},
	collbench.AllGather:     {Size: "each rank receives", Formula: "(n−1)/n"},
	collbench.Broadcast:     {Size: "the first rank has", Formula: "1"},
	collbench.SendReceive:   {Size: "each rank sends", Formula: "1"},
	collbench.AllToAll:      {Size: "each rank sends", Formula: "(n−1)/n"},
}

// Render writes the page. It fails only where w does.
func Render(w io.Writer, r *Report) error {
	b := r.Bench
	v := view{
		Name: r.name(), Finding: r.finding(), Warmup: units.Count(b.Warmup, "call"), Small: units.Bytes(collbench.SmallBytes),
		Ranks: b.World.Size, Repeats: b.Repeats,
		Facts:   []string{r.Device.Name, fmt.Sprintf("%v of %v", b.Op, b.Type), r.Platform},
		Origin:  []string{"measured " + r.MeasuredAt},
		Notices: r.notices(), Tiles: r.tiles(), Advice: r.advice(), Tables: r.tables(),
	}
	if r.CPU != "" {
		v.Facts = append(v.Facts, fmt.Sprintf("%s, %s", r.CPU, units.Count(r.CPUs, "CPU")))
	}
	if r.Commit != "" {
		commit, rest, _ := strings.Cut(r.Commit, " ")
		v.Origin = append(v.Origin, strings.TrimSpace("commit "+commit[:min(len(commit), 12)]+" "+rest))
	}
	for _, s := range series {
		if len(r.rows(s.Name)) == 0 {
			continue
		}
		v.Legend = append(v.Legend, page.Legend(s))
		m := meanings[s.Name]
		m.Operation, m.Factor = s.Name, units.Digits(collbench.BusFactor(s.Name, b.World.Size))
		v.Meanings = append(v.Meanings, m)
	}
	v.Plots = r.plots()
	v.Head = page.Head{
		Style:       page.Style(styleText),
		Title:       v.Name + ": collectives, measured by Pinion",
		Description: "What ranks do together, over sizes. " + v.Finding,
	}
	return page.Render(w, pageTemplate, v)
}

// name says who the ranks are.
func (r *Report) name() string {
	w := r.Bench.World
	if w.Launcher == "" {
		return fmt.Sprintf("%s in one process", units.Count(w.Size, "rank"))
	}
	return fmt.Sprintf("%s on %s", units.Count(w.Size, "rank"), units.Count(r.Bench.Hosts, "host"))
}

func (r *Report) notices() (list []string) {
	w := r.Bench.World
	for _, x := range r.Bench.Rows {
		if x.Wrong != "" {
			list = append(list, "Some values were wrong, so these figures mean nothing. The first: "+x.Wrong+".")
			break
		}
	}
	if w.Launcher == "" {
		list = append(list, "These ranks are goroutines of one process: the figures show its memory and its processors, and say nothing of a network. mpirun or srun would start processes.")
	}
	if r.Device.Integrated && r.CPUs > 0 && w.LocalSize > r.CPUs {
		list = append(list, fmt.Sprintf("%d ranks of a host share %s: they wait for each other’s turn, too.", w.LocalSize, units.Count(r.CPUs, "CPU")))
	}
	if r.Bench.SizeReason != "" {
		list = append(list, "The largest size is less than the default: "+r.Bench.SizeReason+".")
	}
	return list
}

// rows are those of an operation.
func (r *Report) rows(operation string) (list []collbench.Row) {
	for _, x := range r.Bench.Rows {
		if t := x.Best(); x.Operation == operation && t != nil && t.Mean > 0 && t.Bus > 0 {
			list = append(list, x)
		}
	}
	return list
}

// fastest is the row of an operation that has the largest bus bandwidth.
func (r *Report) fastest(operation string) (row collbench.Row, ok bool) {
	for _, x := range r.rows(operation) {
		if !ok || x.Best().Bus > row.Best().Bus {
			row, ok = x, true
		}
	}
	return row, ok
}

func (r *Report) plots() (list []page.Graph) {
	rate := plot.Plot{
		ID: "bus", Title: "Bus bandwidth by size", YName: "GB/s", XName: "size", Label: units.Bytes, Short: units.BytesShort, Log: true,
		Value: units.Rate, Tick: func(v float64) string { return strconv.FormatFloat(v/1e9, 'g', 4, 64) },
	}
	latency := plot.Plot{
		ID: "time", Title: "Time of a single call by size", YName: "time of a call", XName: "size", Label: units.Bytes, Short: units.BytesShort, Log: true,
		Value: units.Seconds, Tick: tickSeconds,
	}
	for _, s := range series {
		bus, single := plot.Line{Series: s}, plot.Line{Series: s}
		for _, x := range r.rows(s.Name) {
			t := x.Best()
			bus.Points = append(bus.Points, plot.Point{X: x.Bytes, Y: t.Bus, Low: t.Bus, High: t.Bus})
			if t.Single > 0 {
				single.Points = append(single.Points, plot.Point{X: x.Bytes, Y: t.Single, Low: t.Single, High: t.Single})
			}
		}
		rate.Add(bus)
		latency.Add(single)
	}
	add := func(p *plot.Plot, note string) {
		if svg := p.Draw(960, 440); svg != "" {
			list = append(list, page.Graph{Title: p.Title, Note: note, SVG: svg})
		}
	}
	add(&rate, "")
	add(&latency, "Each call is waited for; the median, on the slowest rank.")
	return list
}

// tickSeconds is a round number of seconds on an axis.
func tickSeconds(v float64) string {
	unit := 0
	for v *= 1e9; math.Round(v) >= 1e3 && unit < 3; unit++ {
		v /= 1e3
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + " " + []string{"ns", "µs", "ms", "s"}[unit]
}

// finding is about the first operation that was measured.
func (r *Report) finding() string {
	for _, s := range series {
		best, ok := r.fastest(s.Name)
		if !ok {
			continue
		}
		text := fmt.Sprintf("%s reaches a bus bandwidth of %s", strings.ToUpper(s.Name[:1])+s.Name[1:], units.Rate(best.Best().Bus))
		if first := r.rows(s.Name)[0]; first.Best().Single > 0 {
			text += fmt.Sprintf("; of %s, it takes %s", units.Bytes(first.Bytes), units.Seconds(first.Best().Single))
		}
		return text + "."
	}
	return "Nothing was measured."
}

func (r *Report) tiles() (list []page.Tile) {
	for _, s := range series {
		best, ok := r.fastest(s.Name)
		if !ok {
			continue
		}
		t := best.Best()
		tile := page.Tile{Name: s.Name, Values: []page.TileValue{{Number: units.Digits(t.Bus / 1e9), Unit: "GB/s", What: "at " + units.Bytes(best.Bytes)}}, Note: "bus bandwidth"}
		if first := r.rows(s.Name)[0]; first.Best().Single > 0 {
			number, unit := units.SplitDuration(time.Duration(1e9 * first.Best().Single))
			tile.Values = append(tile.Values, page.TileValue{Number: number, Unit: unit, What: "for " + units.Bytes(first.Bytes)})
			tile.Note += ", time of a call"
		}
		list = append(list, tile)
	}
	return list
}

func (r *Report) tables() (list []page.Table) {
	for _, s := range series {
		rows := r.rows(s.Name)
		if len(rows) == 0 {
			continue
		}
		t := page.Table{Title: s.Name + ", in µs and GB/s", Head: []string{"size"}}
		for _, place := range []struct {
			name string
			t    *collbench.Timing
		}{{"", rows[0].Apart}, {"in place: ", rows[0].InPlace}} {
			if place.t != nil {
				t.Head = append(t.Head, place.name+"time", "single", "algorithm", "bus")
			}
		}
		t.Head = append(t.Head, "values")
		for _, x := range rows {
			cells := []page.Cell{{Main: units.Bytes(x.Bytes)}}
			for _, p := range []*collbench.Timing{x.Apart, x.InPlace} {
				if p == nil {
					continue
				}
				single := ""
				if p.Single > 0 {
					single = units.Digits(1e6 * p.Single)
				}
				cells = append(cells, page.Cell{Main: units.Digits(1e6 * p.Mean)}, page.Cell{Main: single},
					page.Cell{Main: units.Digits(p.Algorithm / 1e9)}, page.Cell{Main: units.Digits(p.Bus / 1e9)})
			}
			ok := "right"
			if x.Wrong != "" {
				ok = "WRONG"
			}
			t.Rows = append(t.Rows, append(cells, page.Cell{Main: ok}))
		}
		list = append(list, t)
	}
	return list
}
