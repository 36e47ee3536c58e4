package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newDevices() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices of this machine",
		Long: `List the devices of this machine with their memory, their link to the host,
their copy engines and what they can do. A backend that cannot be used here is
listed with the reason.

All libraries are optional. Environment variables such as PINION_LIB_TURBOJPEG
name another file to load, or switch a library "off".`,
		Example: `  pinion devices
  pinion devices --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := listDevices()
		if err != nil {
			return err
		}
		if *asJSON {
			return cli.PrintJSON(cmd, list)
		}
		return cli.PrintText(cmd, list.print)
	}
	return cmd
}

// deviceList is the JSON document of pinion devices.
type deviceList struct {
	provenance.Record
	Devices      []deviceRow  `json:"devices"`
	NotAvailable []missingRow `json:"not_available"`
	Libraries    []libraryRow `json:"libraries"`
}

// missingRow is a backend or a device that cannot be used.
type missingRow struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// libraryRow is an optional library: the file it was found in, or the reason
// why it cannot be used.
type libraryRow struct {
	Name   string `json:"name"`
	Use    string `json:"use"`
	File   string `json:"file,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type deviceRow struct {
	ID                string       `json:"id"`
	Backend           string       `json:"backend"`
	Name              string       `json:"name"`
	UUID              string       `json:"uuid,omitempty"`
	MemoryTotalBytes  int64        `json:"memory_total_bytes"`
	MemoryFreeBytes   int64        `json:"memory_free_bytes"`
	Link              *cli.LinkRow `json:"link,omitempty"`
	SharesHostMemory  bool         `json:"shares_host_memory"` // there is no link
	CopyEngines       int          `json:"copy_engines"`
	Multiprocessors   int          `json:"multiprocessors"`
	ComputeCapability string       `json:"compute_capability,omitempty"`
	DriverVersion     string       `json:"driver_version,omitempty"`
	PCIBusID          string       `json:"pci_bus_id,omitempty"`
	NUMANode          *int         `json:"numa_node,omitempty"`
	Capabilities      []string     `json:"capabilities"`
}

func listDevices() (*deviceList, error) {
	list := &deviceList{Record: provenance.Now(), Devices: []deviceRow{}, NotAvailable: []missingRow{}, Libraries: listLibraries()}
	for _, b := range device.Backends() {
		names, err := b.List()
		if err != nil {
			list.NotAvailable = append(list.NotAvailable, missingRow{b.Name, err.Error()})
			continue
		}
		for _, name := range names {
			row, err := describe(name)
			if err != nil {
				list.NotAvailable = append(list.NotAvailable, missingRow{name, err.Error()})
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

// listLibraries opens all optional libraries.
func listLibraries() []libraryRow {
	rows := []libraryRow{}
	for _, o := range dl.Registered() {
		row := libraryRow{Name: o.Name, Use: o.Use}
		if file, err := o.Open(); err != nil {
			row.Reason = err.Error()
		} else {
			row.File = dl.Path(file)
		}
		rows = append(rows, row)
	}
	return rows
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
		SharesHostMemory: info.Integrated,
		DriverVersion:    info.DriverVersion, PCIBusID: info.PCIBusID,
		Capabilities: device.Capabilities(dev),
	}
	if info.NUMANode >= 0 {
		row.NUMANode = &info.NUMANode
	}
	if cc := info.ComputeCapability; cc != [2]int{} {
		row.ComputeCapability = fmt.Sprintf("%d.%d", cc[0], cc[1])
	}
	row.Link = cli.NewLinkRow(info.Link)
	return row, nil
}

// devicesWidth is how wide the text is: what a terminal has at least.
const devicesWidth = 80

func (list *deviceList) print(w io.Writer) {
	for _, d := range list.Devices {
		fmt.Fprintf(w, "%s  %s\n", d.ID, d.Name)
		t := texttable.New("", "", "")
		t.Add("", "memory", fmt.Sprintf("%s, %s free", units.Bytes(d.MemoryTotalBytes), units.Bytes(d.MemoryFreeBytes)))
		t.Add("", "link", d.link())
		t.Add("", "copy engines", fmt.Sprint(d.CopyEngines))
		t.Add("", "can do", strings.Join(d.Capabilities, ", "))
		t.WriteWidth(w, devicesWidth)
		fmt.Fprintln(w)
	}
	for _, u := range list.NotAvailable {
		t := texttable.New("", "")
		t.Add("Not available:", u.Reason)
		t.WriteWidth(w, devicesWidth)
		fmt.Fprintln(w)
	}
	t := texttable.New("LIBRARY", "FOR", "FILE")
	for _, l := range list.Libraries {
		t.Add(l.Name, l.Use, l.found())
	}
	t.WriteWidth(w, devicesWidth)
}

// notInstalled is what the system's loader says about a file that it does not
// find, with the name of the file.
var notInstalled = regexp.MustCompile(`(\S+): cannot open shared object file: No such file or directory`)

// found is the file, or the reason in short.
func (l *libraryRow) found() string {
	switch name := notInstalled.FindStringSubmatch(l.Reason); {
	case l.File != "":
		return l.File
	case name != nil:
		return "not installed (" + name[1] + ")"
	}
	return "not used: " + l.Reason
}

func (d *deviceRow) link() string {
	switch {
	case d.Link != nil:
		return d.Link.String()
	case d.SharesHostMemory:
		return "none: shares the host's memory"
	}
	return "unknown"
}
