package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// curvePoint is one path in one direction with copies of one size.
type curvePoint struct {
	Path      string  `json:"path"`
	Direction string  `json:"direction"`
	Bytes     int64   `json:"bytes"`
	GBPerS    float64 `json:"gb_per_s"`
	Min       float64 `json:"min_gb_per_s"`
	Max       float64 `json:"max_gb_per_s"`
}

// writeCurves writes a row for each size, of the paths that a program can take.
func writeCurves(w *strings.Builder, points []curvePoint) {
	head := []string{">GB/s"}
	rates := map[int64][]string{}
	var sizes []int64
	for _, p := range points {
		if rates[p.Bytes] == nil {
			rates[p.Bytes] = make([]string, 6)
			sizes = append(sizes, p.Bytes)
		}
	}
	column := 0
	for _, direction := range []string{"h2d", "d2h"} {
		for _, path := range []string{"pinned", "chosen", "pageable"} {
			head = append(head, ">"+path+" "+direction)
			for _, p := range points {
				if p.Path == path && p.Direction == direction {
					rates[p.Bytes][column] = number(p.GBPerS)
				}
			}
			column++
		}
	}
	if len(sizes) == 0 {
		return
	}
	slices.Sort(sizes)
	t := newTable(head...)
	for _, n := range sizes {
		t.add(append([]string{units.Bytes(n)}, rates[n]...)...)
	}
	fmt.Fprint(w, "\nOver the size of a copy, each waited for. Chosen is ordinary memory by the path that the engine chooses, pageable by the driver.\n")
	t.write(w)
}
