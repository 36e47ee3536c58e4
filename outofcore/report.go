package outofcore

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Lane is what one of the queues of a product did, in seconds from the moment
// that the tiles' memory was there.
type Lane struct {
	Busy  float64 // the rest of the time it waited for the others
	Began float64 // the first operation
	Ended float64 // the last one
}

// add runs an operation of so many seconds, not before that time, and returns
// when it is over.
func (l *Lane) add(from, seconds float64) float64 {
	from = max(from, l.Ended)
	if l.Busy == 0 {
		l.Began = from
	}
	l.Busy += seconds
	l.Ended = from + seconds
	return l.Ended
}

// Lanes are the queues of a product: tiles that come in, products of tiles, and
// tiles of C that go out.
type Lanes struct{ In, Products, Out Lane }

// Report tells what a product took.
type Report struct {
	Plan    *Plan
	Floor   Floor
	Library string        // that multiplied
	Pinned  bool          // all host memory was pinned, and copied straight
	Lanes   Lanes         // as the device saw them; [Plan.Lanes] is what was expected
	Moved   [3]Moved      // of A, B and C, as the device saw it; [Plan.Moved] is what was expected
	Setup   time.Duration // planning, device memory and streams
	Wall    time.Duration // all of it
}

// Times are where the wall time of a product went. They add up to it.
type Times struct {
	Setup, FirstTiles, Products, Waiting, LastTiles, Closing time.Duration
}

// Times says where the time went: Setup; FirstTiles, until the first product of
// tiles could begin; Products; Waiting, of products for tiles in between;
// LastTiles, which went out behind the last product; and Closing, giving
// everything back.
func (r *Report) Times() Times {
	duration := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	l := r.Lanes
	t := Times{
		Setup:      r.Setup,
		FirstTiles: duration(l.Products.Began),
		Products:   duration(l.Products.Busy),
		Waiting:    duration(l.Products.Ended - l.Products.Began - l.Products.Busy),
		LastTiles:  duration(max(l.Out.Ended-l.Products.Ended, 0)),
	}
	t.Closing = r.Wall - t.Setup - t.FirstTiles - t.Products - t.Waiting - t.LastTiles
	return t
}

// FlopRate is the floating-point operations a second that were reached.
func (r *Report) FlopRate() float64 {
	p := &r.Plan.Problem
	return 2 * float64(p.M) * float64(p.N) * float64(p.K) / r.Wall.Seconds()
}

// String prints the report as a table.
func (r Report) String() string {
	if r.Plan == nil {
		return "no plan\n"
	}
	p, q := r.Plan, &r.Plan.Problem
	memory := "not all pinned"
	if r.Pinned {
		memory = "pinned"
	}
	var t strings.Builder
	fmt.Fprintf(&t, "%d x %d x %d of %v by %s, %s\n", q.M, q.N, q.K, q.Type, r.Library, memory)
	slots := fmt.Sprintf("%d of A, %d of B", p.A.Count, p.B.Count)
	if p.B.Count == 0 {
		slots = fmt.Sprintf("%d of A or B", p.A.Count)
	}
	fmt.Fprintf(&t, "%s of tiles of %d x %d x %d; room for %s and %d of C in %s of device memory\n", units.Count(p.Products, "product"),
		p.TileM, p.TileN, p.TileK, slots, p.Sums.Count, units.Bytes(p.DeviceBytes()))
	table := texttable.New("", ">moved", ">least", ">times", ">at", ">expected", ">rows of")
	rate := func(bytes int64, seconds float64) string {
		if seconds == 0 {
			return ""
		}
		return units.Rate(float64(bytes) / seconds)
	}
	row := func(name string, moved, least int64, took, planned float64, rows string) {
		table.Add(name, units.Bytes(moved), units.Bytes(least), units.Digits(float64(moved)/float64(least)), rate(moved, took), rate(moved, planned), rows)
	}
	rows := func(of matrix) string {
		if n := p.Moved[of].RowBytes; n > 0 {
			return units.Bytes(n)
		}
		return "no gaps"
	}
	least := q.matrixBytes()
	row("copied in", p.H2DBytes, r.Floor.H2DBytes, r.Lanes.In.Busy, p.Lanes.In.Busy, "")
	for of, planned := range p.Moved {
		if planned.H2DBytes > 0 {
			row("  "+matrix(of).String(), planned.H2DBytes, least[of], r.Moved[of].H2DSeconds, planned.H2DSeconds, rows(matrix(of)))
		}
	}
	row("copied out", p.D2HBytes, r.Floor.D2HBytes, r.Lanes.Out.Busy, p.Lanes.Out.Busy, rows(matrixC))
	row("both", p.H2DBytes+p.D2HBytes, r.Floor.BothBytes, 0, 0, "")
	t.WriteString(table.String())
	times := texttable.New("", ">time", "")
	if r.Floor.ComputeSeconds > 0 {
		times.Add("products alone", units.Seconds(r.Floor.ComputeSeconds), "by a measured rate")
	}
	times.Add("link alone", units.Seconds(r.Floor.LinkSeconds), fmt.Sprintf("the least bytes, at %s in, %s out", units.Rate(q.H2DRate), units.Rate(q.D2HRate)))
	ofFloor := func(seconds float64) string { return units.Digits(seconds/r.Floor.Seconds()) + " times the floor" }
	times.Add("planned", units.Seconds(p.Seconds), ofFloor(p.Seconds)+", the longer of these")
	times.Add("wall", units.Duration(r.Wall), ofFloor(r.Wall.Seconds())+"; "+units.Digits(r.FlopRate()/1e9)+" GFLOP/s")
	at := r.Times()
	times.Add("  setup", units.Duration(at.Setup), "")
	times.Add("  first tiles", units.Duration(at.FirstTiles), fmt.Sprintf("until a product could begin; planned %s", units.Seconds(p.Lanes.Products.Began)))
	times.Add("  products", units.Duration(at.Products), fmt.Sprintf("planned %s", units.Seconds(p.Lanes.Products.Busy)))
	times.Add("  waiting", units.Duration(at.Waiting), fmt.Sprintf("of products for tiles; planned %s", units.Seconds(p.Lanes.Products.Ended-p.Lanes.Products.Began-p.Lanes.Products.Busy)))
	times.Add("  last tiles", units.Duration(at.LastTiles), fmt.Sprintf("on their way out; planned %s", units.Seconds(max(p.Lanes.Out.Ended-p.Lanes.Products.Ended, 0))))
	times.Add("  closing", units.Duration(at.Closing), "")
	return t.String() + times.String()
}
