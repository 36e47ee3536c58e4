package tierdoc

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Document is what was measured. Where and by which code is told beside it.
type Document struct {
	BudgetBytes int64   `json:"budget_bytes"`
	ArrayBytes  int64   `json:"array_bytes"`
	H2DGBPerS   float64 `json:"h2d_gb_per_s"` // pinned memory, arrays one after the other
	D2HGBPerS   float64 `json:"d2h_gb_per_s"`
	InitSeconds float64 `json:"initialisation_seconds"`
	Rows        []Row   `json:"rows"`

	Pressure Pressure `json:"pressure"`
	Report   string   `json:"report_file,omitempty"` // HTML page
}

// Row is one working set, used in one way.
type Row struct {
	Use
	Ratio         float64 `json:"working_set_ratio"` // of the budget
	By            string  `json:"by"`                // who held the arrays: one of Holders
	Arrays        int     `json:"arrays"`
	Uses          int64   `json:"uses"`
	Seconds       float64 `json:"seconds"`
	UsedBytes     int64   `json:"used_bytes"`
	FilledBytes   int64   `json:"filled_bytes"` // brought to the device
	WrittenBytes  int64   `json:"written_bytes"`
	FetchedBytes  int64   `json:"fetched_bytes"`      // from files
	SavedBytes    int64   `json:"saved_bytes"`        // to files
	LeastBytes    int64   `json:"least_filled_bytes"` // that the best schedule brings to the device
	LRUBytes      int64   `json:"lru_filled_bytes"`   // that least recently used does
	GBPerS        float64 `json:"gb_per_s"`           // used
	MovedGBPerS   float64 `json:"moved_gb_per_s"`     // both directions together
	LinkFraction  float64 `json:"link_fraction"`      // bytes brought in a second, of h2d_gb_per_s
	FloorFraction float64 `json:"floor_fraction"`     // time of the fewest bytes at h2d_gb_per_s, of the time taken
}

// Share is some of the bytes used, as a percentage.
func (r *Row) Share(bytes int64) string { return units.Percent(float64(bytes) / float64(r.UsedBytes)) }

// Use is a way of using arrays.
type Use struct {
	Access string `json:"access"` // one of Accesses
	Write  bool   `json:"write"`  // every use writes the whole array
}

// String is the title of tables and curves.
func (u Use) String() string {
	if u.Write {
		return u.Access + ", every byte written"
	}
	return u.Access
}

// Ways of using arrays.
const (
	Sequential = "sequential" // in turn, again and again
	Random     = "random"     // all arrays alike
	Zipf       = "zipf"       // the n-th most popular array 1/n as often
)

// Accesses lists them.
func Accesses() []string { return []string{Sequential, Random, Zipf} }

// Who holds the arrays.
const (
	Announced = "announced" // a tier.Store that knows the order
	Layers    = "layers"    // a tier.Stream, each array in a step of its own
	Store     = "store"     // a tier.Store that knows nothing beforehand
	Managed   = "managed"   // managed memory, prefetched; what was used least recently goes back
	Files     = "files"     // an announced tier.Store with host memory for half of the budget, and files
	CopyAnew  = "copy anew" // every use copies the array in, three buffers in turn
)

// Holders lists them, in the order of columns.
func Holders() []string { return []string{Announced, Layers, Store, Managed, Files, CopyAnew} }

// Series are the lines of curves, in the order of their legend. Layers, which would lie
// on top of announced, are in tables only.
func Series() []plot.Series {
	return []plot.Series{
		{ID: "announced", Name: Announced, About: "a store that knows the order of uses", Mark: "circle"},
		{ID: "store", Name: Store, About: "a store that is told nothing", Mark: "square"},
		{ID: "managed", Name: Managed, About: "managed memory, prefetched; what was used least recently goes back", Mark: "triangle"},
		{ID: "copyanew", Name: CopyAnew, About: "each use copies its array", Mark: "diamond"},
		{ID: "files", Name: Files, About: "a store that knows the order, with half the budget of host memory and the rest in files", Mark: "cross"},
	}
}

// Curves is an empty plot of the bytes used a second over the working set, whose X is
// that of [Point].
func Curves(u Use) plot.Plot {
	label := func(x int64) string { return fmt.Sprintf("%gx", float64(x)/100) }
	return plot.Plot{
		Title: u.String(), YName: "GB/s used", XName: "working set, of the budget", Label: label, Short: label, Log: true,
		Value: func(v float64) string { return units.Digits(v) + " GB/s" }, Tick: func(v float64) string { return fmt.Sprintf("%g", v) },
	}
}

// Point is a point of such curves.
func Point(ratio, gbPerS float64) plot.Point {
	return plot.Point{X: int64(100*ratio + 0.5), Y: gbPerS, Low: gbPerS, High: gbPerS}
}

// Pressure is arrays of twice the size of a pool, and plain allocations beside them.
type Pressure struct {
	Arrays         int     `json:"arrays"`
	Bytes          int64   `json:"bytes"`
	Touches        int     `json:"touches"`
	Allocs         int     `json:"allocs"`
	Failures       int     `json:"failures"`
	FirstFailure   string  `json:"first_failure,omitempty"`
	ReclaimedBytes int64   `json:"reclaimed_bytes"`
	Seconds        float64 `json:"seconds"`
}

// Sentence tells what happened; "" where nothing was measured.
func (p *Pressure) Sentence(pool int64) string {
	if p.Arrays == 0 {
		return ""
	}
	return fmt.Sprintf("A pool of %s, %s of arrays in it, touched %s at random, and %s beside them: %s; %s left the device for them.",
		units.Bytes(pool), units.Bytes(p.Bytes), units.Count(p.Touches, "time"), units.Count(p.Allocs, "plain allocation"),
		units.Count(p.Failures, "failure"), units.Bytes(p.ReclaimedBytes))
}
