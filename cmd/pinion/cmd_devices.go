package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newDevices() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of this machine",
		Long: `List the devices of this machine: memory, link to the host, copy engines and
what each can do. A backend that cannot be used here is named with the reason.`,
		Example: `  pinion devices
  pinion devices --json`,
		Args: noArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := listDevices()
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(cmd, list)
		}
		return printText(cmd, list.print)
	}
	return cmd
}

type deviceList struct {
	Devices     []deviceRow      `json:"devices"`
	Unavailable []unavailableRow `json:"unavailable"`
}

type deviceRow struct {
	ID                string   `json:"id"`
	Backend           string   `json:"backend"`
	Name              string   `json:"name"`
	UUID              string   `json:"uuid,omitempty"`
	MemoryTotalBytes  int64    `json:"memory_total_bytes"`
	MemoryFreeBytes   int64    `json:"memory_free_bytes"`
	Link              *linkRow `json:"link,omitempty"`
	CopyEngines       int      `json:"copy_engines"`
	Multiprocessors   int      `json:"multiprocessors"`
	ComputeCapability string   `json:"compute_capability,omitempty"`
	DriverVersion     string   `json:"driver_version,omitempty"`
	PCIBusID          string   `json:"pci_bus_id,omitempty"`
	NUMANode          int      `json:"numa_node"`
	Capabilities      []string `json:"capabilities"`
}

type linkRow struct {
	Kind          string  `json:"kind"`
	Generation    int     `json:"generation"`
	Width         int     `json:"width"`
	MaxGeneration int     `json:"max_generation"`
	MaxWidth      int     `json:"max_width"`
	WireGBPerS    float64 `json:"wire_gb_per_s"`
}

type unavailableRow struct {
	Backend string `json:"backend"`
	Reason  string `json:"reason"`
}

func listDevices() (*deviceList, error) {
	list := &deviceList{Devices: []deviceRow{}, Unavailable: []unavailableRow{}}
	for _, b := range device.Backends() {
		names, err := b.List()
		if err != nil {
			list.Unavailable = append(list.Unavailable, unavailableRow{b.Name, err.Error()})
			continue
		}
		for _, name := range names {
			row, err := describe(name)
			if err != nil {
				list.Unavailable = append(list.Unavailable, unavailableRow{name, err.Error()})
				continue
			}
			list.Devices = append(list.Devices, *row)
		}
	}
	if len(list.Devices) == 0 {
		return nil, errors.New("no device can be opened")
	}
	return list, nil
}

func describe(name string) (row *deviceRow, err error) {
	dev, err := device.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	memory, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	info := dev.Info()
	row = &deviceRow{
		ID: info.ID, Backend: info.Backend, Name: info.Name, UUID: info.UUID,
		MemoryTotalBytes: memory.TotalBytes, MemoryFreeBytes: memory.FreeBytes,
		CopyEngines: info.CopyEngines, Multiprocessors: info.Multiprocessors,
		DriverVersion: info.DriverVersion, PCIBusID: info.PCIBusID, NUMANode: info.NUMANode,
		Capabilities: device.Capabilities(dev),
	}
	if cc := info.ComputeCapability; cc != [2]int{} {
		row.ComputeCapability = fmt.Sprintf("%d.%d", cc[0], cc[1])
	}
	row.Link = newLinkRow(info.Link)
	return row, nil
}

// newLinkRow describes a link; nil is one that is unknown or not there.
func newLinkRow(l device.Link) *linkRow {
	if l.Kind == "" {
		return nil
	}
	return &linkRow{l.Kind, l.Gen, l.Width, l.MaxGen, l.MaxWidth, l.BytesPerSecond() / 1e9}
}

func (l *linkRow) String() string {
	link := device.Link{Kind: l.Kind, MaxGen: l.MaxGeneration, MaxWidth: l.MaxWidth}
	return fmt.Sprintf("%s, %.0f GB/s", link, l.WireGBPerS)
}

func (list *deviceList) print(w io.Writer) {
	t := texttable.New("DEVICE", "NAME", ">MEMORY", ">FREE", "LINK", ">COPY ENGINES", "CAPABILITIES")
	for _, d := range list.Devices {
		link := "none: shares the host's memory"
		if d.Link != nil {
			link = d.Link.String()
		} else if d.Backend != "host" {
			link = "unknown"
		}
		t.Add(d.ID, d.Name, units.Bytes(d.MemoryTotalBytes), units.Bytes(d.MemoryFreeBytes), link,
			fmt.Sprint(d.CopyEngines), strings.Join(d.Capabilities, " "))
	}
	t.Write(w)
	for _, u := range list.Unavailable {
		fmt.Fprintf(w, "\nNot available: %s\n", u.Reason)
	}
}
