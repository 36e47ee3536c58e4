package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Measure what this machine can do",
		Example: `  pinion bench link --size 256MiB`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchLink())
	return cmd
}

func newBenchLink() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Measure the paths between host and device memory",
		Long: `Measure the paths between host and device memory, with correct bytes checked
first:

  pageable  ordinary memory, copied by the backend itself
  staged    ordinary memory, through Pinion's copiers and pinned rings
  pinned    page-locked memory, straight to the copy engine
  mapped    page-locked memory, read and written by a kernel

The paths are timed in turn, one repeat of each after the other; the median of
the repeats is printed with the slowest and the fastest. Opening the device is
a row of its own: a benchmark that times it with the first copy says nothing
about copies.`,
		Example: `  pinion bench link
  pinion bench link --device cuda:0 --size 4GiB --repeats 15
  pinion bench link --json > link.json`,
		Args: noArgs,
	}
	name := deviceFlag(cmd)
	bytes := size(1 << 30)
	cmd.Flags().Var(&bytes, "size", "bytes of a bulk copy")
	repeats := cmd.Flags().Int("repeats", 7, "timed repeats of each path")
	copiers := cmd.Flags().Int("copiers", 0, "goroutines of the staged path (default: one a processor, at most 12)")
	asJSON := cmd.Flags().Bool("json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if *repeats < 1 || *copiers < 0 {
			return badUsage(cmd, "--repeats is %d and --copiers is %d: at least 1 and 0 are needed", *repeats, *copiers)
		}
		if bytes < linkbench.MinSize {
			return badUsage(cmd, "--size is %d bytes, but must be at least %d", int64(bytes), linkbench.MinSize)
		}
		start := time.Now()
		dev, err := openDevice(cmd, *name)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev.Close()) }()
		opened := time.Since(start)

		line := newProgress(cmd)
		report, err := linkbench.Run(cmd.Context(), dev, linkbench.Options{
			Size: int64(bytes), Repeats: *repeats, Copiers: *copiers,
			Progress: line.show,
		})
		line.clear()
		if err != nil {
			return err
		}
		out := newLinkOutput(dev, report, opened)
		if *asJSON {
			return printJSON(cmd, out)
		}
		return printText(cmd, out.print)
	}
	return cmd
}

type linkOutput struct {
	provenance
	Device       string       `json:"device"`
	Name         string       `json:"name"`
	Link         *linkRow     `json:"link,omitempty"`
	SizeBytes    int64        `json:"size_bytes"`
	Repeats      int          `json:"repeats"`
	InitSeconds  float64      `json:"initialisation_seconds"`
	Bulk         []bulkRow    `json:"bulk"`
	SmallCopies  []timingRow  `json:"small_copies"`
	PinCost      []timingRow  `json:"pin_cost"`
	NotAvailable []skippedRow `json:"not_available"`
}

type bulkRow struct {
	Path          string  `json:"path"`
	Direction     string  `json:"direction"`
	GBPerS        float64 `json:"gb_per_s"`
	MinGBPerS     float64 `json:"min_gb_per_s"`
	MaxGBPerS     float64 `json:"max_gb_per_s"`
	PercentOfBest float64 `json:"percent_of_best"`
}

type timingRow struct {
	What       string  `json:"what"`
	Seconds    float64 `json:"seconds"`
	MinSeconds float64 `json:"min_seconds"`
	MaxSeconds float64 `json:"max_seconds"`
}

type skippedRow struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

func newLinkOutput(dev device.Device, r *linkbench.Report, opened time.Duration) *linkOutput {
	info := dev.Info()
	out := &linkOutput{
		provenance: newProvenance(),
		Device:     info.ID, Name: info.Name, Link: newLinkRow(info.Link),
		SizeBytes: r.Size, Repeats: r.Repeats, InitSeconds: opened.Seconds(),
		Bulk: []bulkRow{}, SmallCopies: timingRows(r.Small), PinCost: timingRows(r.Pin), NotAvailable: []skippedRow{},
	}
	for _, b := range r.Bulk {
		out.Bulk = append(out.Bulk, bulkRow{b.Path, b.Direction, b.Median / 1e9, b.Least / 1e9, b.Most / 1e9, 100 * b.OfBest})
	}
	for _, s := range r.Skipped {
		out.NotAvailable = append(out.NotAvailable, skippedRow{s.Path, s.Why.Error()})
	}
	return out
}

func timingRows(list []linkbench.Timing) []timingRow {
	rows := []timingRow{}
	for _, t := range list {
		rows = append(rows, timingRow{t.What, t.Median.Seconds(), t.Least.Seconds(), t.Most.Seconds()})
	}
	return rows
}

func (o *linkOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.Name)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\n%s a copy, median of %d interleaved repeats\n\n", gib(o.SizeBytes), o.Repeats)

	t := newTable("PATH", "DIRECTION", ">GB/s", ">MIN", ">MAX", ">OF BEST")
	for _, b := range o.Bulk {
		t.add(b.Path, directions[b.Direction], gb(b.GBPerS), gb(b.MinGBPerS), gb(b.MaxGBPerS), fmt.Sprintf("%.0f %%", b.PercentOfBest))
	}
	t.print(w)

	t = newTable("TIME", ">MEDIAN", ">MIN", ">MAX")
	t.add("open the device (once)", seconds(o.InitSeconds), "", "")
	for _, r := range o.SmallCopies {
		t.add(r.What+", waited for", seconds(r.Seconds), seconds(r.MinSeconds), seconds(r.MaxSeconds))
	}
	for _, r := range o.PinCost {
		t.add(fmt.Sprintf("pin %s: %s", gib(o.SizeBytes), r.What), seconds(r.Seconds), seconds(r.MinSeconds), seconds(r.MaxSeconds))
	}
	fmt.Fprintln(w)
	t.print(w)
	for _, s := range o.NotAvailable {
		fmt.Fprintf(w, "\nNot available: %s: %s\n", s.Path, s.Reason)
	}
}

var directions = map[string]string{"h2d": "host to device", "d2h": "device to host", "both": "both at once"}

func seconds(s float64) string { return duration(time.Duration(s * 1e9)) }
