package main

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// outOfCore is what a row of bench/outofcore says beside its time.
type outOfCore struct {
	FloorSeconds    float64        `json:"floor_seconds"`
	PlannedSeconds  float64        `json:"planned_seconds"`
	FloorFraction   float64        `json:"floor_fraction"`
	AtLeastFraction float64        `json:"at_least_fraction"` // of the floor
	H2D             int64          `json:"h2d_bytes"`
	FloorH2D        int64          `json:"floor_h2d_bytes"`
	D2H             int64          `json:"d2h_bytes"`
	Tile            []int64        `json:"tile"`
	Went            *outOfCoreTime `json:"went"`
}

// outOfCoreTime is where the time of a product went, in seconds.
type outOfCoreTime struct {
	Setup      float64 `json:"setup_seconds"`
	FirstTiles float64 `json:"first_tiles_seconds"`
	Products   float64 `json:"products_seconds"`
	Waiting    float64 `json:"waiting_seconds"`
	LastTiles  float64 `json:"last_tiles_seconds"`
	Closing    float64 `json:"closing_seconds"`

	PlannedProducts float64 `json:"planned_products_seconds"`
	H2D             float64 `json:"h2d_gb_per_s"`
	D2H             float64 `json:"d2h_gb_per_s"`
	PlannedH2D      float64 `json:"planned_h2d_gb_per_s"`
	PlannedD2H      float64 `json:"planned_d2h_gb_per_s"`
}

// floorText is how near a product comes to its floor.
func floorText(rows []comparedRow) string {
	r := rows[len(rows)-1]
	if r.FloorFraction == 0 {
		return ""
	}
	text := units.Percent(r.FloorFraction)
	switch {
	case r.AtLeastFraction == 0:
	case r.FloorFraction >= r.AtLeastFraction:
		text += fmt.Sprintf(", at least %.0f %%: reached", 100*r.AtLeastFraction)
	default:
		text += fmt.Sprintf(", at least %.0f %%: missed", 100*r.AtLeastFraction)
	}
	return text
}

// writeOutOfCore writes the times of a run, and where those of products went.
func writeOutOfCore(w *strings.Builder, files []*comparedFile) {
	writeCompared(w, outofcore, files)
	t := newTable("where the time went", "by", ">floor", ">planned", ">setup", ">first tiles", ">products", ">planned", ">waiting", ">last tiles", ">closing",
		">copied in", ">the least", ">GB/s", ">planned", ">out", ">GB/s", ">planned", "tile")
	for _, f := range files {
		for _, r := range f.Rows {
			went := r.Went
			if went == nil {
				continue
			}
			tile := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Tile), " ", " x "), "[]")
			t.add(plain(r.Name), plain(r.By), duration(r.FloorSeconds), duration(r.PlannedSeconds),
				duration(went.Setup), duration(went.FirstTiles), duration(went.Products), duration(went.PlannedProducts),
				duration(went.Waiting), duration(went.LastTiles), duration(went.Closing),
				units.Bytes(r.H2D), units.Bytes(r.FloorH2D), number(went.H2D), number(went.PlannedH2D),
				units.Bytes(r.D2H), number(went.D2H), number(went.PlannedD2H), tile)
		}
	}
	t.write(w)
}
