package main

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// devicesFile is what `pinion devices --json` prints.
type devicesFile struct {
	file    string
	Devices []struct {
		ID                string `json:"id"`
		Name              string `json:"name"`
		MemoryTotalBytes  int64  `json:"memory_total_bytes"`
		Link              *wire  `json:"link"`
		CopyEngines       int    `json:"copy_engines"`
		ComputeCapability string `json:"compute_capability"`
		DriverVersion     string `json:"driver_version"`
	} `json:"devices"`
}

func (f *devicesFile) write(w *strings.Builder) {
	t := newTable("device", "name", ">memory", "link", ">copy engines", "compute capability", "driver API")
	for _, d := range f.Devices {
		link := ""
		if d.Link != nil {
			link = d.Link.String()
		}
		t.add(plain(d.ID), plain(d.Name), units.Bytes(d.MemoryTotalBytes), link,
			fmt.Sprint(d.CopyEngines), plain(d.ComputeCapability), plain(d.DriverVersion))
	}
	t.write(w)
}
