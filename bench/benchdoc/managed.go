package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// managedFile is what `pinion bench managed --json` prints.
type managedFile struct {
	provenance
	Repeats int     `json:"repeats"`
	Sizes   []int64 `json:"sizes_bytes"`
	Ways    []struct {
		Way       string  `json:"way"`
		Direction string  `json:"direction"`
		Bytes     int64   `json:"bytes"`
		GBPerS    float64 `json:"gb_per_s"`
		Seconds   float64 `json:"seconds"`
		Min       float64 `json:"min_seconds"`
		Max       float64 `json:"max_seconds"`
	} `json:"ways"`
	NotAvailable []notAvailable `json:"not_available"`
}

func (f *managedFile) check() error {
	for _, w := range f.Ways {
		if err := checkSpread(fmt.Sprintf("%s %s, %d bytes", w.Way, w.Direction, w.Bytes), w.Seconds, w.Min, w.Max); err != nil {
			return err
		}
		if !slices.Contains(f.Sizes, w.Bytes) {
			return fmt.Errorf("%s %s has %d bytes, which is none of the sizes", w.Way, w.Direction, w.Bytes)
		}
	}
	return nil
}

// write writes the rates of each way, by size.
func (f *managedFile) write(w *strings.Builder) {
	fmt.Fprintf(w, "\n### %s: managed memory beside copies\n\n", f.file)
	fmt.Fprintf(w, "%s. %d interleaved repeats. %s. From %s on. GB/s, medians; h2d: a kernel reads what the host wrote; d2h: the host reads what a kernel wrote.\n",
		plain(f.DeviceName), f.Repeats, f.origin(), f.MeasuredAt)
	columns := []string{"way", "direction"}
	for _, n := range f.Sizes {
		columns = append(columns, ">"+units.Bytes(n))
	}
	t := newTable(columns...)
	rows := map[[2]string][]string{}
	var order [][2]string
	for _, row := range f.Ways {
		key := [2]string{row.Way, row.Direction}
		if rows[key] == nil {
			rows[key] = make([]string, len(f.Sizes))
			order = append(order, key)
		}
		rows[key][slices.Index(f.Sizes, row.Bytes)] = number(row.GBPerS)
	}
	for _, key := range order {
		t.add(append([]string{plain(key[0]), plain(key[1])}, rows[key]...)...)
	}
	t.write(w)
	writeNotAvailable(w, f.NotAvailable)
}
