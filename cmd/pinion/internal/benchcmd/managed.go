package benchcmd

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/managedbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newManaged() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "managed",
		Short: "Measure managed memory beside copies",
		Long: `Measure managed (unified) memory beside copies. To the device, the host has
written the data, and the clock runs until a kernel has read all of it. To the
host, the device has written the data, and the clock runs until the host has
touched every page. Each way is checked for correct bytes first:

  on demand   managed memory, as it is: a page moves when it is missed
  prefetched  managed memory, moved before it is touched
  in place    managed memory that stays on the host: the kernel reads it there
  pinned      a copy of page-locked memory
  staged      a copy of ordinary memory, through Pinion's pinned rings
  pageable    a copy of ordinary memory, by the backend itself

The ways are timed in turn, one repeat of each after the other, for --size, a
sixteenth and a 256th of it. The table shows the median of the repeats; --json
has the least and the most as well. 1 GB/s is 10^9 bytes a second.

A run takes three times --size of device memory and at most an eighth of what is
free for each: managed memory is never oversubscribed.`,
		Example: `  pinion bench managed
  pinion bench managed --device cuda:0 --size 1GiB
  pinion bench managed --json > managed.json`,
		Args: cli.NoArgs,
	}
	var o managedbench.Options
	var asJSON bool
	name := cli.DeviceFlag(cmd)
	flags.Size(cmd.Flags(), &o.Size, "size", 256<<20, "bytes of the largest row, in units of 64 KiB; the default is less where memory is short")
	flags.Int(cmd.Flags(), &o.Repeats, "repeats", 7, flags.AtLeast(1), "timed repeats of each way")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Size < managedbench.MinSize || o.Size%managedbench.MinSize != 0 {
			return cli.BadUsage(cmd, "--size is %s, but must be a multiple of %s", units.ExactBytes(o.Size), units.Bytes(managedbench.MinSize))
		}
		if !cmd.Flags().Changed("size") {
			o.Size = 0 // or less
		}
		out, err := measureManaged(cmd, *name, o)
		if err != nil {
			return err
		}
		if asJSON {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	}
	return cmd
}

func measureManaged(cmd *cobra.Command, name string, o managedbench.Options) (out *managedOutput, err error) {
	start := time.Now()
	dev, err := cli.OpenDevice(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	record, opened := provenance.Now(), time.Since(start)
	line := cli.NewProgress(cmd)
	o.Progress = line.Show
	report, err := managedbench.Run(cmd.Context(), dev, o)
	line.Clear()
	if err != nil {
		return nil, err
	}
	return newManagedOutput(record, dev.Info(), opened, report), nil
}

// managedOutput is the JSON document of pinion bench managed.
type managedOutput struct {
	provenance.Record
	Link         *cli.LinkRow `json:"link,omitempty"`
	Migration    string       `json:"migration"` // of managed memory: "none", "pages" or "whole"
	SizesBytes   []int64      `json:"sizes_bytes"`
	SizeReason   string       `json:"size_reason,omitempty"` // why the largest is less than the default
	Repeats      int          `json:"repeats"`
	InitSeconds  float64      `json:"initialisation_seconds"`
	Ways         []managedRow `json:"ways"`
	NotAvailable []skippedRow `json:"not_available"`
}

type managedRow struct {
	Way        string  `json:"way"`
	Direction  string  `json:"direction"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	MinSeconds float64 `json:"min_seconds"`
	MaxSeconds float64 `json:"max_seconds"`
	GBPerS     float64 `json:"gb_per_s"`
}

func newManagedOutput(record provenance.Record, info device.Info, opened time.Duration, r *managedbench.Report) *managedOutput {
	out := &managedOutput{
		Record: record.On(info.ID, info.Name), Link: cli.NewLinkRow(info.Link),
		Migration: r.Migration.String(), SizesBytes: r.Sizes, SizeReason: r.SizeReason, Repeats: r.Repeats,
		InitSeconds: opened.Seconds(), Ways: []managedRow{}, NotAvailable: []skippedRow{},
	}
	for _, w := range r.Rows {
		out.Ways = append(out.Ways, managedRow{w.Way, w.Direction, w.Bytes,
			w.Median.Seconds(), w.Least.Seconds(), w.Most.Seconds(), w.PerSecond() / 1e9})
	}
	for _, s := range r.Skipped {
		out.NotAvailable = append(out.NotAvailable, skippedRow{s.Way + " " + directions[s.Direction], s.Why.Error()})
	}
	return out
}

var migrationWords = map[string]string{
	"none":  "managed memory does not migrate: host and device share it",
	"pages": "managed memory migrates by pages",
	"whole": "managed memory migrates as a whole",
}

func (o *managedOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.DeviceName)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\n%s\nGB/s, median of %d interleaved repeats\n", migrationWords[o.Migration], o.Repeats)
	if o.SizeReason != "" {
		fmt.Fprintf(w, "Smaller than the default: %s\n", o.SizeReason)
	}
	o.printTable(w, "HOST WRITES, A KERNEL READS", "h2d")
	o.printTable(w, "A KERNEL WRITES, HOST READS", "d2h")
	printNotAvailable(w, o.NotAvailable)
}

// printTable prints a row for each way and a column for each size.
func (o *managedOutput) printTable(w io.Writer, title, direction string) {
	head := []string{title}
	for _, n := range o.SizesBytes {
		head = append(head, ">"+units.Bytes(n))
	}
	t := texttable.New(head...)
	var row []string
	for _, r := range o.Ways {
		if r.Direction != direction {
			continue
		}
		if row == nil || row[0] != r.Way {
			row = []string{r.Way}
		}
		if row = append(row, units.Digits(r.GBPerS)); len(row) == len(head) {
			t.Add(row...)
			row = nil
		}
	}
	fmt.Fprintln(w)
	t.Write(w)
}
