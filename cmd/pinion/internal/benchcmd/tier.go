package benchcmd

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierreport"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/cpuname"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newTier() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "Measure working sets larger than a budget of device memory",
		Long: `Measure working sets from half of a budget of device memory to four times that,
whose arrays move between pinned host memory and the device as they are used:

  sequential  in turn, again and again; also with every byte written and
              written back
  random      all alike
  zipf        the n-th most popular array is used 1/n as often as the first

The arrays are held in these ways:

  store       by a tier.Store that is told nothing
  announced   by a tier.Store that knows the order of uses
  layers      by a tier.Stream, which runs a step for each array
  managed     as managed memory, each array prefetched before its use and the
              least recently used ones sent back; only where pages migrate
  files       with --folder: by a store that knows the order, has host memory
              for half of the budget, and keeps the rest in files
  copy anew   by nobody: each use copies its array, three buffers in turn

USED is how fast the uses went through their bytes: more than the link carries
where arrays stay on the device. MOVED is what crossed the link meanwhile, both
directions together. MISSES are the bytes brought in, of those used; LEAST is
what the best possible schedule (Belady's) would bring in during the same
rounds, LRU what dropping the least recently used one would. The content is
checked before it is timed.

In the end arrays of twice a pool's size are touched at random, with plain
allocations of the pool beside them; every byte is checked.

The budget stands in for the device's capacity; device memory is never filled. A
run takes --budget of device memory and four times that of pinned host memory.`,
		Example: `  pinion bench tier
  pinion bench tier --device cuda:0 --budget 4GiB --array 64MiB
  pinion bench tier --ratios 2 --access zipf
  pinion bench tier --folder /nvme0 --folder /nvme1
  pinion bench tier --ratios 2 --access zipf --trace trace.json
  pinion bench tier --report tier.html --json > tier.json`,
		Args: cli.NoArgs,
	}
	var o tierbench.Options
	var asJSON bool
	name := cli.DeviceFlag(cmd)
	flags.Size(cmd.Flags(), &o.Budget, "budget", 1<<30, "bytes of device memory for the arrays; the default is less where memory is short")
	flags.Size(cmd.Flags(), &o.ArrayBytes, "array", 0, "bytes of an array (default: 1/64 of the budget)")
	flags.Floats(cmd.Flags(), &o.Ratios, "ratios", []float64{0.5, 1, 1.5, 2, 4}, 64, "working sets to measure, in terms of the budget")
	o.Access = tierdoc.Accesses()
	flags.Choices(cmd.Flags(), &o.Access, "access", tierdoc.Accesses(), "ways of using the arrays")
	cmd.Flags().Float64Var(&o.Seconds, "seconds", 0.5, "least time of a row")
	cmd.Flags().StringArrayVar(&o.Folders, "folder", nil, "also keep arrays in a file in this `FOLDER`; several share the bytes")
	report := cmd.Flags().String("report", "", "`FILE` for an HTML page with curves")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = cli.TraceFlag(cmd.Flags()).Run(func(cmd *cobra.Command, _ []string) error {
		if o.Seconds <= 0 || o.Seconds > 60 {
			return cli.BadUsage(cmd, "--seconds is %g, but must be above 0 and at most 60", o.Seconds)
		}
		if cmd.Flags().Changed("array") && o.Budget/4 < o.ArrayBytes {
			return cli.BadUsage(cmd, "--array is %s, but must be at most a quarter of the budget of %s", units.Bytes(o.ArrayBytes), units.Bytes(o.Budget))
		}
		if n := o.ArrayBytes; cmd.Flags().Changed("array") && n < tierbench.LeastArray {
			return cli.BadUsage(cmd, "--array is %s, but must be at least %s", units.Bytes(n), units.Bytes(tierbench.LeastArray))
		}
		if o.Budget < 4*tierbench.LeastArray {
			return cli.BadUsage(cmd, "--budget is %s, but must be at least %s", units.Bytes(o.Budget), units.Bytes(4*tierbench.LeastArray))
		}
		if *report == "" && cmd.Flags().Changed("report") {
			return cli.BadUsage(cmd, "--report needs the name of a file")
		}
		page := (*atomicfile.File)(nil)
		if *report != "" {
			var err error
			if page, err = cli.CreateFile(*report); err != nil {
				return err
			}
		}
		run, err := measureTier(cmd, *name, o, cmd.Flags().Changed("budget"))
		if err != nil {
			if page != nil {
				err = errors.Join(err, page.Discard())
			}
			return err
		}
		if page != nil {
			if err := cli.FinishFile(page, run.writeReport); err != nil {
				return err
			}
		}
		out := run.output()
		out.Report = *report
		if asJSON {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	})
	return cmd
}

// tierRun is a measurement and what it was made on.
type tierRun struct {
	provenance.Record
	info    device.Info
	opened  time.Duration
	options tierbench.Options
	*tierbench.Report
}

func measureTier(cmd *cobra.Command, name string, o tierbench.Options, exact bool) (run *tierRun, err error) {
	start := time.Now()
	dev, err := cli.OpenDevice(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	record, opened := provenance.Now(), time.Since(start)
	if !exact {
		memory, err := dev.Memory()
		if err != nil {
			return nil, err
		}
		o.Budget = max(min(o.Budget, memory.FreeBytes/4, sysmem.Available()/16)>>20<<20, 1<<20)
	}
	if o.ArrayBytes == 0 {
		o.ArrayBytes = max(o.Budget/64, tierbench.LeastArray)
	}
	line := cli.NewProgress(cmd)
	o.Progress = line.Show
	report, err := tierbench.Run(cmd.Context(), dev, o)
	line.Clear()
	if err != nil {
		return nil, err
	}
	return &tierRun{record, dev.Info(), opened, o, report}, nil
}

func (r *tierRun) output() *tierOutput {
	return newTierOutput(r.Record, r.info, r.opened, r.options, r.Report)
}

// writeReport writes the run as an HTML page.
func (r *tierRun) writeReport(w io.Writer) error {
	return tierreport.Render(w, &tierreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, Options: r.options, Bench: r.Report,
	})
}

// tierOutput is the JSON document of pinion bench tier.
type tierOutput struct {
	provenance.Record
	Link *cli.LinkRow `json:"link,omitempty"`
	tierdoc.Document

	NotAvailable []skippedRow `json:"not_available"`
}

func newTierOutput(record provenance.Record, info device.Info, opened time.Duration, o tierbench.Options, r *tierbench.Report) *tierOutput {
	out := &tierOutput{
		Record: record.On(info.ID, info.Name), Link: cli.NewLinkRow(info.Link),
		Document: tierdoc.Document{
			BudgetBytes: o.Budget, ArrayBytes: o.ArrayBytes,
			H2DGBPerS: r.LinkH2D / 1e9, D2HGBPerS: r.LinkD2H / 1e9, InitSeconds: opened.Seconds(),
			Rows: []tierdoc.Row{},
		},
		NotAvailable: []skippedRow{},
	}
	for _, n := range r.NotAvailable {
		out.NotAvailable = append(out.NotAvailable, skippedRow{n.Name, n.Reason})
	}
	p := r.Pressure
	out.Pressure = tierdoc.Pressure{Arrays: p.Arrays, Bytes: p.Bytes, Touches: p.Touches, Allocs: p.Allocs, Failures: p.Failures,
		ReclaimedBytes: p.Reclaimed, Seconds: p.Seconds}
	if err := p.First; err != nil {
		out.Pressure.FirstFailure = err.Error()
	}
	for _, x := range r.Rows {
		out.Rows = append(out.Rows, tierdoc.Row{
			Use: x.Use, Ratio: x.Ratio, By: x.By, Arrays: x.Arrays, Uses: x.Uses, Seconds: x.Seconds,
			UsedBytes: x.Bytes, FilledBytes: x.Filled, WrittenBytes: x.Written, FetchedBytes: x.Fetched, SavedBytes: x.Saved, LeastBytes: x.Least, LRUBytes: x.LRU,
			GBPerS: x.Rate() / 1e9, MovedGBPerS: x.Moved() / 1e9,
			LinkFraction:  float64(x.Filled) / x.Seconds / r.LinkH2D,
			FloorFraction: float64(x.Least) / r.LinkH2D / x.Seconds,
		})
	}
	return out
}

func (o *tierOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.DeviceName)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\na budget of %s, arrays of %s; GB/s\npinned memory, one array after the other: %s to the device, %s back\n",
		units.Bytes(o.BudgetBytes), units.Bytes(o.ArrayBytes), cli.GBPerS(o.H2DGBPerS), cli.GBPerS(o.D2HGBPerS))
	seen := map[tierdoc.Use]bool{}
	for _, r := range o.Rows {
		if seen[r.Use] {
			continue
		}
		seen[r.Use] = true
		what := r.Access
		if r.Write {
			what += ", written"
		}
		fmt.Fprintln(w)
		t := texttable.New("WORKING SET", what, ">USED", ">MOVED", ">OF LINK", ">MISSES", ">LEAST", ">LRU")
		for _, x := range o.Rows {
			if x.Use != r.Use {
				continue
			}
			t.Add(fmt.Sprintf("%gx", x.Ratio), x.By, cli.GBPerS(x.GBPerS), cli.GBPerS(x.MovedGBPerS), units.Percent(x.LinkFraction),
				x.Share(x.FilledBytes), x.Share(x.LeastBytes), x.Share(x.LRUBytes))
		}
		t.Write(w)
	}
	printNotAvailable(w, o.NotAvailable)
	if said := o.Pressure.Sentence(o.BudgetBytes); said != "" {
		fmt.Fprintf(w, "\n%s\n", said)
	}
	if o.Pressure.FirstFailure != "" {
		fmt.Fprintf(w, "The first failure: %s\n", o.Pressure.FirstFailure)
	}
}
