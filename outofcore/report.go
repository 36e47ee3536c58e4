package outofcore

import (
	"fmt"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Report tells what a product took.
type Report struct {
	Plan    *Plan
	Floor   Floor
	Library string        // that multiplied
	Pinned  bool          // all host memory was pinned, and copied straight
	Setup   time.Duration // planning, device memory and streams
	Wall    time.Duration // all of it
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
	fmt.Fprintf(&t, "%s of tiles of %d x %d x %d in %s of device memory\n", units.Count(p.Products, "product"),
		p.TileM, p.TileN, p.TileK, units.Bytes(p.DeviceBytes()))
	table := texttable.New("", ">moved", ">least", ">times")
	row := func(name string, moved, least int64) {
		table.Add(name, units.Bytes(moved), units.Bytes(least), units.Digits(float64(moved)/float64(least)))
	}
	row("copied in", p.H2DBytes, r.Floor.H2DBytes)
	row("copied out", p.D2HBytes, r.Floor.D2HBytes)
	row("both", p.H2DBytes+p.D2HBytes, r.Floor.BothBytes)
	t.WriteString(table.String())
	times := texttable.New("", ">time", "")
	times.Add("products alone", units.Seconds(r.Floor.ComputeSeconds), "by a measured rate")
	times.Add("link alone", units.Seconds(r.Floor.LinkSeconds), fmt.Sprintf("the least bytes, at %s in, %s out", units.Rate(q.H2DRate), units.Rate(q.D2HRate)))
	times.Add("planned", units.Seconds(p.Seconds), "")
	times.Add("wall", units.Duration(r.Wall), fmt.Sprintf("%s of it setup; %s GFLOP/s", units.Duration(r.Setup), units.Digits(r.FlopRate()/1e9)))
	return t.String() + times.String()
}
