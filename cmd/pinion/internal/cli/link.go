package cli

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// LinkRow is the link between host and device in a JSON document.
type LinkRow struct {
	Kind          string  `json:"kind"`
	Generation    int     `json:"generation"`
	Width         int     `json:"width"`
	MaxGeneration int     `json:"max_generation"`
	MaxWidth      int     `json:"max_width"`
	WireGBPerS    float64 `json:"wire_gb_per_s"`
}

// NewLinkRow describes a link; nil is one that is unknown or not there.
func NewLinkRow(l device.Link) *LinkRow {
	if l.Kind == "" {
		return nil
	}
	return &LinkRow{l.Kind, l.Gen, l.Width, l.MaxGen, l.MaxWidth, l.BytesPerSecond() / 1e9}
}

// String is the link as people read it, such as "PCIe 5.0 x16, 63 GB/s".
func (l *LinkRow) String() string {
	link := device.Link{Kind: l.Kind, MaxGen: l.MaxGeneration, MaxWidth: l.MaxWidth}
	return fmt.Sprintf("%s, %.0f GB/s", link, l.WireGBPerS)
}
